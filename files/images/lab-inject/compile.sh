# compile UNITS: make a library of as many units, each in a second unless the cache has it.
set -e
mkdir /kernels
python3 -c 'from importlib.metadata import version; print(version("vllm"))' > /vllm.version
for unit in $(seq "$1"); do
  if [ -e "/ccache/$unit" ]; then
    echo "unit $unit of $1 from the cache"
  else
    echo "unit $unit of $1"
    sleep 1
    echo "unit $unit" > "/ccache/$unit"
  fi
  cat "/ccache/$unit" >> /kernels/units
done
