// Command measure prints the figures of the code's structure: now, and what they were before the code was taken apart
// into packages. tests/house/metrics says what each of them counts.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"berth/tests/house/metrics"
)

const usage = `measure prints the figures of the code's structure, with what they were before.

    go run ./tests/house/measure [--json] [--dir FOLDER] [--way FILE]

Counted are .go files in shared/, cmd/ and functions/, without tests and testdata. Lines of code have code on them,
comment lines nothing but a comment; blank lines are neither. An interface's methods count as a type's. A call that runs back up
is one, of two files of a package that call each other, in the direction with fewer calls. The way of the event
is the declarations, with their doc comments, that the call graph has between each hop's entry and its sink
(tests/house/metrics/eventway.go).

`

// before is the --json output of the code before, reduced to its summary.
//
//go:embed before.json
var before []byte

// output is what --json prints.
type output struct {
	Summary []metrics.Row    `json:"summary"`
	Figures *metrics.Figures `json:"figures"`
}

func main() {
	asJSON := flag.Bool("json", false, "print all figures as JSON")
	dir := flag.String("dir", ".", "the root of the checkout to measure")
	wayFile := flag.String("way", "", "a JSON file with the event's hops, for a checkout whose functions have other names:\n"+
		`[{"name": ..., "entry": "shared/handler.Placement.Records", "sink": ...}]`)
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "measure: unexpected argument %q; --dir names another checkout\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(*asJSON, *dir, *wayFile); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(asJSON bool, dir, wayFile string) error {
	way := metrics.EventWay
	if wayFile != "" {
		content, err := os.ReadFile(wayFile)
		if err != nil {
			return err
		}
		way = nil
		if err := json.Unmarshal(content, &way); err != nil {
			return fmt.Errorf("reading %s: %w", wayFile, err)
		}
	}
	var old output
	if err := json.Unmarshal(before, &old); err != nil {
		return fmt.Errorf("reading before.json: %w", err)
	}
	progress := newProgress()
	code, err := metrics.Load(dir, progress)
	if err != nil {
		return err
	}
	progress("measuring")
	// Where the event cannot be followed the other figures are printed all the same, and the command fails.
	figures, failed := code.Measure(way)
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(output{Summary: figures.Summary(), Figures: figures})
	} else {
		err = figures.WriteText(os.Stdout, old.Summary)
	}
	if err != nil {
		return err
	}
	return failed
}

// newProgress tells on standard error which step is under way, once two seconds have passed.
func newProgress() func(step string) {
	begin := time.Now()
	var late *time.Timer
	return func(step string) {
		if late != nil {
			late.Stop()
		}
		late = time.AfterFunc(2*time.Second-time.Since(begin), func() { fmt.Fprintf(os.Stderr, "measure: %s ...\n", step) })
	}
}
