#!/bin/bash
# `make deps` asks apt for what is missing and for nothing else, fetches package lists only when it must, uses sudo
# only when it is not root, and says what to do where there is no apt. apt-get, sudo and id are stand-ins here.
. tests/support/shell_test.sh
script=$PWD/scripts/install_packages.sh
mkdir -p "$scratch"/{scripts,bin}
cd "$scratch" || exit 1
for tool in sh env cat rm mktemp grep printf; do ln -s "$(command -v $tool)" bin/; done

stand_in() { cat >"$1" && chmod +x "$1"; }
# What the search reports as missing is in the file `missing`.
stand_in scripts/find_dependencies.sh <<'END'
#!/bin/sh
if [ "$1" = --packages ]; then cat missing; else echo "  missing: the list"; exit 1; fi
END
stand_in bin/id <<<'#!/bin/sh
cat uid'
stand_in bin/sudo <<<'#!/bin/sh
echo "sudo" >>calls; exec "$@"'
stand_in bin/apt-get <<'END'
#!/bin/sh
echo "apt-get $*" >>calls
case $1 in update) : >lists ;; *) [ -f lists ] ;; esac
END
# run: starts deps with these tools only; afterwards `output` and `calls` tell what happened.
run() {
    : >calls
    PATH=$scratch/bin "$script" >output 2>&1
}
install='apt-get install -q -y --no-install-recommends g++ zlib1g-dev'

echo 0 >uid
: >missing
run
check_equal "nothing is missing: nothing is asked for" "$? $(cat calls)" "0 "
printf 'g++ zlib1g-dev ' >missing
touch lists
run
check_equal "root: one call" "$? $(cat calls)" "0 $install"
rm lists
run
check_equal "no package lists: they are fetched" "$? $(tr '\n' ';' <calls)" "0 $install;apt-get update -q;$install;"
echo 1000 >uid
run
check_equal "an ordinary user: sudo" "$? $(tr '\n' ';' <calls)" "0 sudo;$install;"
rm bin/sudo
run
check_equal "no sudo: an error" "$? $(cat calls)" "1 "
check_contains "no sudo: the command to give to root" "$(cat output)" "as root: apt-get install --no-install-recommends g++ zlib1g-dev"
rm bin/apt-get
run
check_equal "no apt: an error" "$?" 1
check_contains "no apt: the list" "$(cat output)" "missing: the list"
