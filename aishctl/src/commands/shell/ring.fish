# The shell begins anew in a recorder, once on each terminal. Where that cannot be, it goes on as it is. One that has read this before is not
# begun anew.
if status is-interactive; and not set -q __aish_prompts; and isatty stdout; and test -r /proc/$fish_pid/cmdline
    set -l words (string split0 </proc/$fish_pid/cmdline)
    if not contains -- -c $words; and not string match -q -- '--command*' $words
        and command aishctl record --check </dev/tty 2>/dev/null
        exec aishctl record --program (status fish-path) -- $words </dev/tty
    end
end
# Programs are not to know the word for the recorder.
set -q __aish_ring; or set -g __aish_ring none
if set -q AISH_RING
    set -g __aish_ring $AISH_RING
    set -e AISH_RING
end
