#compdef berth
autoload -U +X bashcompinit && bashcompinit
complete -o default -C berth berth
