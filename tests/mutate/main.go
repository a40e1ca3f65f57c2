//go:build unix

// Command mutate measures what the tests of a folder notice: it changes the code there in many
// small ways, one at a time, and runs the folder's own tests against each change.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"berth/tests/mutate/mutants"
)

const usage = `mutate changes an operator or a condition, or removes a statement, one at a time, and runs the tests
of the folder and its subfolders (go test -short) against each change. It prints the changes that no test notices.

    go run ./tests/mutate [-seed 1] [-count 200] [-part 1/4] [-at-least 90] [-json] FOLDER ...

The tree is only read. Changes that cannot matter are listed in tests/mutate/kept.json, with a reason each.
Exit codes: 0, 1 if a limit is broken or kept.json is out of date, 2 for an error, 130 after Ctrl-C.

`

// options are the flags.
type options struct {
	seed           int64
	count, workers int
	atLeast        float64
	unexplained    int
	asJSON         bool
	leeway         time.Duration
	keptName, part string
}

func main() {
	var o options
	flag.Int64Var(&o.seed, "seed", 1, "decides which changes are drawn")
	flag.IntVar(&o.count, "count", 200, "how many changes to draw for each folder; 0 for all")
	flag.Float64Var(&o.atLeast, "at-least", 0, "fail if less than this `percentage` of a folder's changes is noticed")
	flag.IntVar(&o.unexplained, "unexplained", -1,
		"fail if more changes than this survive without a reason in kept.json")
	flag.BoolVar(&o.asJSON, "json", false, "print the results as JSON")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "how many changes to try at a time")
	flag.DurationVar(&o.leeway, "leeway", 20*time.Second,
		"how long tests may take besides ten times what they usually take")
	flag.StringVar(&o.keptName, "kept", "tests/mutate/kept.json", "the list of kept changes")
	flag.StringVar(&o.part, "part", "", "try one `part` of the drawn changes alone: 2/4 is the second quarter")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, o, flag.Args(), os.Stdout, os.Stderr))
}

// run measures the folders one after the other and returns the exit code.
func run(ctx context.Context, o options, folders []string, out, problems io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(problems, "mutate:", err)
		return 2
	}
	kept, err := mutants.ReadKept(o.keptName)
	if err != nil {
		return fail(err)
	}
	var reports []*report
	code := 0
	for _, folder := range folders {
		r, err := measure(ctx, o, kept, folder)
		if r != nil {
			reports = append(reports, r)
			if !o.asJSON {
				r.writeText(out)
			}
			if r.breaks(o) {
				code = 1
			}
		}
		if ctx.Err() != nil {
			fmt.Fprintln(problems, "mutate: interrupted")
			code = 130
			break
		}
		if err != nil {
			return fail(err)
		}
	}
	if o.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(reports); err != nil {
			return fail(err)
		}
	}
	return code
}

// measure tries the changes of one folder. After an interruption the report has those that were
// tried.
func measure(ctx context.Context, o options, kept []mutants.Kept, folder string) (*report, error) {
	begin := time.Now()
	p := newProgress(os.Stderr, folder)
	defer p.clear()
	p.show("reading")
	tree, err := mutants.Find(".", folder)
	if err != nil {
		return nil, err
	}
	drawn := tree.Mutants
	if o.count > 0 {
		drawn = mutants.Sample(tree.Mutants, o.seed, o.count)
	}
	if drawn, err = mutants.Part(drawn, o.part); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutate-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p.show("compiling")
	suite, err := mutants.Build(ctx, tree, drawn, dir)
	if err != nil {
		return nil, err
	}
	suite.Leeway = o.leeway
	if err := suite.Measure(ctx, func(done, of int) { p.count("test", done, of) }); err != nil {
		return nil, err
	}
	results, err := suite.Try(ctx, o.workers, func(done, of int) { p.count("change", done, of) })
	r := &report{
		Folder: filepath.ToSlash(filepath.Clean(folder)), Seed: o.seed, Possible: len(tree.Mutants),
		Drawn: len(drawn), Tried: len(results), Results: results, took: time.Since(begin),
	}
	r.Vanished, r.NoticedKept = mutants.Explain(tree, kept, results)
	r.tally()
	return r, err
}
