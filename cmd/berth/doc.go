// Command berth runs the scheduler in one process, replays traces through it, and talks to a
// running one.
//
// Each command is a struct whose fields are its flags: commands in main.go lists them, and kong
// fills them in. Validate checks the flags and names the one that is wrong, before anything
// happens; Run does the work. The long help texts are in help/. The work itself is in packages
// below this one:
//
//   - installation and dataplane: Berth, or the simulated AWS alone, in this process (up, fleet)
//   - replay, pack and trace: recorded clusters (replay, pack)
//   - reassign: problems of the machine reassignment challenge (rebalance)
//   - proxy: other tools' calls to a running Berth (proxy)
//   - client, whatif and definition: calls to a running Berth (all other commands)
//
// Answers go to standard output, as text or with --json as JSON whose names are stable. Progress
// and errors go to standard error. runCommandLine lists the exit codes.
package main
