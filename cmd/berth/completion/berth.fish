function __complete_berth
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    berth
end
complete -f -c berth -a "(__complete_berth)"
