# Date arithmetic for POSIX shells. Sourced, not run.

# is_leap YEAR: succeeds when the year has a 29 February.
is_leap() {
    [ $(($1 % 4)) -eq 0 ]
}

# days_in_month YEAR MONTH: prints a number.
days_in_month() {
    case $2 in
    2) if is_leap "$1"; then echo 29; else echo 28; fi ;;
    4 | 6 | 9 | 11) echo 30 ;;
    *) echo 31 ;;
    esac
}

# day_of_year YEAR MONTH DAY: prints a number, 1 for 1 January.
day_of_year() {
    month=1
    days=$3
    while [ "$month" -lt "$2" ]; do
        days=$((days + $(days_in_month "$1" "$month")))
        month=$((month + 1))
    done
    echo "$days"
}
