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
