package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"berth/cmd/berth/problem"
	"berth/shared/choice"
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

// offerOrder adds to a mistake the command line that has the same words in the right order, if that is one:
// of `explain --json service web`, it is `explain service web --json`.
func offerOrder(mistake string, args []string) string {
	if strings.Contains(mistake, "did you mean") || slices.Contains(args, "--") { // what follows is another command's
		return mistake
	}
	parser, err := newParser(context.Background(), &streams{out: io.Discard, err: io.Discard}, func(int) {})
	if err != nil {
		return mistake
	}
	ordered := orderWords(parser.Model.Node, args)
	if _, err := parser.Parse(ordered); err != nil || slices.Equal(ordered, args) {
		return mistake
	}
	line := "berth"
	for _, word := range ordered {
		line += " " + problem.QuoteArgument(word)
	}
	return fmt.Sprintf("%s; did you mean `%s`?", mistake, line)
}

// orderWords puts the words that name a command first, or that nearly do, then other words, and flags with
// their values last.
func orderWords(root *kong.Node, args []string) []string {
	var words, flags []string
	for n := 0; n < len(args); n++ {
		switch name, _, hasValue := strings.Cut(args[n], "="); {
		case !strings.HasPrefix(name, "-"):
			words = append(words, args[n])
		case !hasValue && takesValue(root, name) && n+1 < len(args):
			flags = append(flags, args[n], args[n+1])
			n++
		default:
			flags = append(flags, args[n])
		}
	}
	var named []string
	for node := root; ; {
		at, child := findCommand(node, words)
		if child == nil {
			return slices.Concat(named, words, flags)
		}
		node, named, words = child, append(named, child.Name), slices.Delete(words, at, at+1)
	}
}

// findCommand returns the first word that is the name of a child, or if none is, the first that nearly is.
func findCommand(node *kong.Node, words []string) (at int, child *kong.Node) {
	named := map[string]*kong.Node{}
	for _, c := range node.Children {
		named[c.Name] = c
	}
	for at, word := range words {
		if named[word] != nil {
			return at, named[word]
		}
	}
	names := slices.Sorted(maps.Keys(named))
	for at, word := range words {
		if c := named[choice.Nearest(word, names)]; c != nil {
			return at, c
		}
	}
	return 0, nil
}

// takesValue reports whether a flag of some command, such as "--cluster" or "-o", has a value of its own.
func takesValue(node *kong.Node, flag string) bool {
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool {
		return (flag == "--"+f.Name || f.Short != 0 && flag == "-"+string(f.Short)) && !f.IsBool()
	}) || slices.ContainsFunc(node.Children, func(c *kong.Node) bool { return takesValue(c, flag) })
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
