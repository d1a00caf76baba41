record={{ record }}
mkdir -p {{ folder }} && exec 9>>{{ folder }}/lock || exit 1
if ! flock -w {{ wait }} 9; then
  since=$(date -r {{ folder }}/owner +%s)
  printf '%s\n' "{{ taken }}$(head -n 1 {{ folder }}/owner), since $since"
  exit
fi
printf '%s\n' {{ owner }} > {{ folder }}/owner || exit 1
echo {{ held }}
waiting=
while line=$(timeout {{ silence }} sh -c 'read -r line && printf "%s\n" "$line"'); do
  [ -z "$line" ] || waiting="$waiting$(date -u +%Y-%m-%dT%H:%M:%SZ) $(cat {{ folder }}/owner): $line
"
  if [ -n "$waiting" ] && [ -d "${record%/*}" ]; then
    printf '%s' "$waiting" >> "$record" && waiting=
  fi
done
