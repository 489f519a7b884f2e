# aish for fish. Alt-a makes a command of what is typed, `#? TEXT` asks. Neither runs a command.
function __aish_propose
    set -l typed (commandline | string collect)
    if test -z (string trim -- $typed | string collect)
        return 0
    end
    set -l line (printf '%s\n' $typed | command aishctl propose --quiet --shell fish)
    if test $status -eq 0; and test (count $line) -eq 1; and not string match -qr '[[:cntrl:]]' -- $line
        commandline -r -- $line
        commandline -f end-of-line
    end
    commandline -f repaint
end

# The question is kept when the line is entered, and asked before the next prompt.
function __aish_enter
    set -l typed (commandline)
    if test (count $typed) -eq 1; and string match -q -- '#\?*' $typed
        set -g __aish_question (string sub -s 3 -- $typed)
    end
    commandline -f execute
end

function __aish_after --on-event fish_prompt
    set -l ended $status
    if set -q __aish_question
        set -l question $__aish_question
        set -e __aish_question
        printf '%s\n\n(The last command ended with status %s.)\n' $question $ended | command aishctl ask -
    end
end

if status is-interactive
    for mode in default insert
        bind -M $mode \ea __aish_propose
        bind -M $mode \r __aish_enter
    end
end
