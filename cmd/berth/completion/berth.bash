complete -o default -C berth berth
