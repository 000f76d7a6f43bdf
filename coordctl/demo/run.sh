# Runs all tests: sh tests/run.sh
cd "$(dirname "$0")/.." || exit 2
. src/dates.sh

failed=0

# check NAME EXPECTED ACTUAL
check() {
    if [ "$2" = "$3" ]; then
        echo "ok      $1"
    else
        echo "not ok  $1: expected $2, got $3"
        failed=$((failed + 1))
    fi
}

check "January has 31 days" 31 "$(days_in_month 2023 1)"
check "April has 30 days" 30 "$(days_in_month 2023 4)"
check "2023 is a common year" 28 "$(days_in_month 2023 2)"
check "2024 is a leap year" 29 "$(days_in_month 2024 2)"
check "1900 is a common year" 28 "$(days_in_month 1900 2)"
check "2000 is a leap year" 29 "$(days_in_month 2000 2)"
check "1 March 1900 is day 60" 60 "$(day_of_year 1900 3 1)"
check "31 December 2024 is day 366" 366 "$(day_of_year 2024 12 31)"

echo "$failed failed"
[ "$failed" -eq 0 ]
