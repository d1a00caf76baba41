# Makes a new key and its certificate. Before it stand the values of: root, key (a path), spark.
# Both are made in a folder of their own and then moved: an interruption leaves an unfit identity.
# Only `openssl ca` of OpenSSL 3.0 can set both dates: a Spark whose clock is wrong, as after a long
# time without power, must still recognize its peer.
set -eu
umask 077
new=$root/secrets/link.new
rm -rf -- "$new"
mkdir -- "$new"
cd -- "$new"
: > index
cat > config <<'END'
[ca]
default_ca = own
[own]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
[req]
distinguished_name = policy
END
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key
openssl req -new -config config -key key -subj "/CN=$spark" -out request
openssl ca -batch -notext -config config -selfsign -keyfile key -in request -out certificate \
  -startdate 19700101000000Z -enddate 21250101000000Z
chmod 644 certificate
mv -f -- certificate "$root/link/own.crt"
mv -f -- key "$key"
rm -rf -- "$new"
