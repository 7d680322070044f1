# Puts --scale and its value, out of the flags of mammoth.sweep, into `scale`, for the report. Source it: `. scripts/scale.sh "$@"`.
scale=()
for ((place = 1; place <= $#; place++)); do
    next=$((place + 1))
    case "${!place}" in
        --scale) scale=(--scale "${!next-}") ;;
        --scale=*) scale=("${!place}") ;;
    esac
done
