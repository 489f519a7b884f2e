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

set -q __aish_prompts; or set -g __aish_prompts 0

# In a recorder (__aish_ring) marks say where the output of a command begins and where it has ended.
function __aish_before --on-event fish_preexec
    string match -q -- '#*' "$argv"; and return
    set -g __aish_running "$argv"
    set -g __aish_directory $PWD
    set -l word (string split -m 1 -f 2 : -- "$__aish_ring")
    and printf '\e]133;C;aish=%s;%s\a' $word $__aish_prompts
end

function __aish_after --on-event fish_postexec
    set -l ended $status
    set -g __aish_prompts (math $__aish_prompts + 1)
    set -l word (string split -m 1 -f 2 : -- "$__aish_ring")
    and printf '\e]133;D;%s;aish=%s;%s\a' $ended $word $__aish_prompts
    if set -q __aish_running
        set -g __aish_command $__aish_running
        set -g __aish_ended $ended
        set -e __aish_running
    end
end

function __aish_prompted --on-event fish_prompt
    if set -q __aish_question
        set -l question $__aish_question
        set -e __aish_question
        set -l recorder "$__aish_ring"
        string match -q '*:*' -- $recorder; and set recorder $recorder:$__aish_prompts
        printf '%s\0' $question "$__aish_command" "$__aish_directory" "$__aish_ended" $recorder | command aishctl shell-ask
    end
end

if status is-interactive
    for mode in default insert
        bind -M $mode \ea __aish_propose
        bind -M $mode \r __aish_enter
    end
end
