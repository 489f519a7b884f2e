//! Programs that are known to be harmless, and the options of which that is known.

/// What the words that are no options are to a program.
pub(super) enum OperandKind {
    /// It reads them.
    Read,
    /// It reads so many; one more would be written.
    AtMost(usize),
    /// It writes them.
    Written,
}

use OperandKind::{AtMost, Read, Written};

/// Programs and builtins that write, delete and start nothing, whatever they are told.
pub(super) const READS: &str = "ls dir vdir cat tac head tail wc nl rev cut paste tr comm join fold fmt expand unexpand pr \
    basename dirname realpath readlink pwd echo true false : stat du df free uptime uname whoami id groups who w users last \
    cal ncal seq sleep md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum cmp diff grep egrep fgrep zgrep \
    zcat bzcat xzcat zdiff zcmp jq bc expr factor numfmt od hexdump strings base64 base32 nproc arch lscpu lsblk lsusb \
    lspci lsmod lsmem lsns lsipc findmnt pstree pgrep pidof vmstat iostat mpstat printenv locale which whereis type getconf \
    wait exit return break continue shift dirs umask logname tsort column look tput tokei \
    nm size readelf zipinfo lz4cat exa eza lsd pathchk getent apropos whatis colordiff \
    ifstat nstat sensors acpi ulimit disown \
    basenc pwdx uuidgen getopt delta difft times";

/// Programs that read, and whose words go out into a network.
pub(super) const ASKS_NETWORK: &str = "dig nslookup host ping ping6 traceroute tracepath whois";

/// What only talks: words of these name nothing that is read.
pub(super) const TALKS: &str = "echo printf ls dir stat basename dirname realpath touch mkdir test [ which type command sudo \
    env export true false : cd find fd tree du";

/// Programs that may be asked what they are.
pub(super) const ASKED: &str = "git cargo rustc rustup rustfmt node npm npx yarn pnpm bun deno python python2 python3 pip pip3 \
    pipx uv poetry go java javac mvn gradle kotlinc scala sbt docker docker-compose podman kubectl helm terraform make cmake \
    ninja gcc g++ cc c++ clang clang++ ld bash zsh fish sh dash ruby gem bundle perl php composer lua curl wget ssh tar rsync \
    systemctl gh aws gcloud az jq sed awk gawk grep find vim vi nvim emacs nano code tmux screen less man psql mysql sqlite3 \
    redis-cli ffmpeg convert magick pandoc rm mv cp dd openssl gpg nginx httpd apt apt-get brew dpkg rpm pacman snap ansible \
    vagrant packer julia R swift dotnet tsc eslint prettier jest vitest pytest ruff black mypy flake8 rg fd bat fzf htop";

/// Name, options, operands.
pub(super) const LISTED: &[(&str, &str, OperandKind)] = &[
    // text
    (
        "sort",
        "-b -d -f -g -h -i -M -n -R -r -s -u -V -z -c -C -m -k= -t= -S= --key= --field-separator= --reverse --unique \
         --numeric-sort --human-numeric-sort --version-sort --ignore-case --general-numeric-sort --month-sort --stable \
         --check --zero-terminated --parallel= -o> --output> --ignore-leading-blanks --dictionary-order --random-sort",
        Read,
    ),
    (
        "uniq",
        "-c -d -D -u -i -z -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --all-repeated",
        AtMost(1),
    ),
    (
        "shuf",
        "-n= -i= -r -z -e --head-count= --input-range= --repeat -o> --output>",
        Read,
    ),
    (
        "file",
        "-b -i -k -L -h -z -s -I --mime --mime-type --mime-encoding --brief --dereference",
        Read,
    ),
    (
        "xxd",
        "-b -c= -g= -l= -s= -p -u -i -e -E -ps -plain -len=",
        AtMost(1),
    ),
    ("less more most", "-N -S -R -F -X -i -n -r -e -E", Read),
    (
        "bat batcat",
        "-n -p -pp -A -l= --plain --number --language= --style= --color= --paging= --theme= --line-range= -r= --no-pager",
        Read,
    ),
    ("man", "-k -f", Read),
    (
        "tree",
        "-a -d -f -i -s -h -u -g -p -D -L= -I= -P= -C -n -J -X -F -N -q -l -x -t -r -v --noreport --dirsfirst \
        --gitignore --prune --du --charset= --filelimit= --matchdirs --ignore-case -o>",
        Read,
    ),
    (
        "rg",
        "-n -i -l -c -v -w -x -o -s -S -u -uu -uuu -F -e= -f= -g= -t= -T= -A= -B= -C= -m= -r= -L -H -I -N -U -0 -p -P -q -j= -M= -d= \
        --files --files-with-matches --files-without-match --count --count-matches --glob= --iglob= --type= --type-not= --hidden --no-ignore \
        --ignore-case --smart-case --fixed-strings --word-regexp --invert-match --line-number --no-line-number --json --stats \
        --context= --after-context= --before-context= --max-count= --max-depth= --multiline --only-matching --pcre2 --replace= \
        --sort= --sortr= --color= --heading --no-heading --with-filename --no-filename --follow --no-messages --passthru \
        --trim --vimgrep --column --type-list --max-columns= --regexp= --no-ignore-vcs --quiet --case-sensitive --null --debug",
        Read,
    ),
    (
        "ag ack",
        "-i -l -n -c -v -w -Q -A= -B= -C= -g= -G= -m= -s -S --hidden --ignore= --depth= --nocolor --color -o -L",
        Read,
    ),
    (
        "yq",
        "-r -e -P -o= -p= -c -M -C -N -n -s= -j --output-format= --input-format= --prettyPrint --null-input --exit-status",
        Read,
    ),
    ("printf", "", Read),
    ("read", "-r -s -n= -t= -d= -p= -a=", Read),
    // the shell
    ("set", "-e -u -x -v -f -n -o= -eu -eux -ex", Read),
    ("unset", "-v", Read),
    ("history", "", AtMost(1)),
    ("local", "-r", Read),
    // the system, looked at
    (
        "ps",
        "-a -A -e -f -F -l -L -u= -U= -p= -C= -o= -O= -H -w -ww -T -x -ef -eo= -aux --sort= --no-headers --forest --pid= --ppid= --user= -M -j -y -Z --cols= --headers",
        Read,
    ),
    ("top", "-b -n= -d= -p= -o= -c -H -w= -u= -l= -1", AtMost(0)),
    (
        "lsof",
        "-i? -n -P -p= -t -u= -c= -a -l -U -s? -d= -nP +",
        Read,
    ),
    (
        "ss",
        "-t -u -l -n -p -a -s -4 -6 -x -w -o -e -m -i -r -H --tcp --udp --listening --numeric --processes --all --summary --no-header",
        Read,
    ),
    (
        "netstat",
        "-a -t -u -l -n -p -r -s -i -e -o -c -v -4 -6 --tcp --udp --numeric --listening --program --all",
        AtMost(0),
    ),
    (
        "dmesg",
        "-T -H -k -x -l= -f= -e -t -w --ctime --human --level= --since= --until= --color= -L",
        AtMost(0),
    ),
    ("mount", "-l", AtMost(0)),
    ("ifconfig", "-a -s", AtMost(1)),
    ("hostname", "-f -s -i -I -d --fqdn --short -A", AtMost(0)),
    ("tty stty", "-a -s --all", AtMost(0)),
    ("sysctl", "-a -n --all", AtMost(0)),
    (
        "journalctl",
        "-u= -f -n= -p= -b? -k -r -x -e -o= -t= -S= -U= -q -a -g= --unit= --follow --lines= --since= --until= --priority= --boot --dmesg \
        --reverse --no-pager --output= --user --system --identifier= --grep= --disk-usage --list-boots --no-tail --user-unit= --utc --catalog --pager-end",
        Read,
    ),
    ("lastlog", "-u= -t= -b=", AtMost(0)),
    (
        "nvidia-smi",
        "-L -q -l= -i= --query-gpu= --format= -d=",
        AtMost(0),
    ),
    ("ldd", "-v -u -r -d", Read),
    (
        "objdump",
        "-d -D -h -t -T -x -S -s -M= -C -f -p -r -R -j= -l -w --disassemble -a",
        Read,
    ),
    ("zipinfo", "-1 -s -m -l -v -h -t -T -z", Read),
    (
        "xmllint",
        "--noout --format --xpath= --valid --schema= --html --nonet",
        Read,
    ),
    (
        "shellcheck",
        "-s= -x -e= -f= -S= --shell= --exclude= --format= --severity= --color=",
        Read,
    ),
    (
        "hadolint yamllint markdownlint jsonlint actionlint",
        "-d= -c= -f= --strict -q",
        Read,
    ),
    ("jobs", "-l -p -r -s", AtMost(1)),
    ("timedatectl hostnamectl localectl", "--no-pager", AtMost(0)),
    (
        "gpg",
        "-k -K --list-keys --list-secret-keys --fingerprint --verify --with-colons --list-public-keys",
        Read,
    ),
    // files that are made
    ("mkdir", "-p -v -m= --parents --verbose --mode=", Written),
    (
        "touch",
        "-a -c -m -t= -d= -r= --date= --no-create --reference= --time=",
        Written,
    ),
    (
        "rmdir",
        "-p -v --parents --verbose --ignore-fail-on-non-empty",
        Written,
    ),
    ("mktemp", "-d -t -u -q", AtMost(0)),
    ("tee", "-a -i -p --append --ignore-interrupts", Written),
    // compilers that write where they are told
    (
        "gcc g++ cc c++ clang clang++",
        "-o> -c -g -O? -Wall -Wextra -Werror -Wpedantic -pedantic -pthread -E -S -fsyntax-only \
        -fPIC -shared -static -std= -I= -L= -l= -D= -U= -v -pipe -m64 -march= -M -MM -MD -fsanitize= -fno-omit-frame-pointer -Og -O2 -O3 -O0 -O1 -Os -ggdb -g3",
        Read,
    ),
    (
        "javac",
        "-d> -cp= -classpath= --release= -Xlint -Xlint:all -g -source= -target= -encoding= -verbose",
        Read,
    ),
    (
        "rustc",
        "-o> --edition= --crate-type= -O -g --explain= --test --print= -A= -W= -D= -vV",
        Read,
    ),
    (
        "rustfmt",
        "--check --edition= -l -v --emit= --color=",
        Written,
    ),
    ("gofmt", "-l -d -s -e", Read),
];
