# Ends the groups of processes that it was told of, once the program that started it is gone.
#
# Its argument is the mark of that program. In a line of standard input: "watch", a group, and the seconds between two
# steps; or "forget" and a group. Only a whole variable with a whole mark counts (-z: an environment consists of texts
# that end with a zero byte), and nothing is looked for with what is no mark: an empty one would fit processes of
# anybody.
trap '' HUP INT TERM
groups=
grace=1
while read -r word group seconds; do
  case $word in
    watch) groups="$groups $group"; grace=$seconds ;;
    forget) kept=; for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done; groups=$kept ;;
  esac
done
sleep "$grace"
for each in $groups; do kill -s TERM -- "-$each" 2>/dev/null; done
sleep "$grace"
for each in $groups; do kill -s KILL -- "-$each" 2>/dev/null; done
case $1 in *[!0-9a-f]*) exit 1 ;; esac
[ "${#1}" -eq 32 ] || exit 1
for process in /proc/[0-9]*; do
  grep -qsz -- "^ANTIPHON_CHILD=$1[.][0-9][0-9]*$" "$process/environ" 2>/dev/null &&
    kill -s KILL "${process#/proc/}" 2>/dev/null
done
exit 0
