package main

import (
	"embed"
	"strings"

	"github.com/alecthomas/kong"
)

// helpTexts are the long help texts: what flags cannot say, the names in the JSON, and examples.
// That of `berth explain task` is help/explain-task.txt.
//
//go:embed help/*.txt
var helpTexts embed.FS

// readLongHelpText returns the long help text of a command, or "" if it has none.
func readLongHelpText(command string) string {
	text, err := helpTexts.ReadFile("help/" + command + ".txt")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// addLongHelpTexts gives each command its long help text.
func addLongHelpTexts(parser *kong.Kong) error {
	var add func(n *kong.Node, command string)
	add = func(n *kong.Node, command string) {
		n.Detail = readLongHelpText(command)
		for _, child := range n.Children {
			add(child, strings.TrimPrefix(command+"-"+child.Name, "-"))
		}
	}
	add(parser.Model.Node, "")
	return nil
}

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
