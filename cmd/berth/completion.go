package main

import "embed"

// completionScripts make a shell ask berth itself what may come next on a command line, by the
// variable COMP_LINE. berth must be in the PATH.
//
//go:embed completion/berth.*
var completionScripts embed.FS

// completionCommand prints the script that completes command lines of berth in a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCommand) Run(s *streams) error {
	script, err := completionScripts.ReadFile("completion/berth." + c.Shell)
	if err != nil {
		return err
	}
	_, err = s.out.Write(script)
	return err
}
