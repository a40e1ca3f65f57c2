//go:build unix

// Command run runs the project's checks: `make test`, `make check` and `make lint`. It fetches the
// tools that they need into .cache/, prints a line for each step and ends with what failed, what
// was skipped and why, and the counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	check := flag.Bool("check", false, "run what takes long or depends on chance")
	seeds := flag.Int("seeds", 300, "with -check, how many seeds to simulate")
	lint := flag.Bool("lint", false, "run only the checks that run no code of the project")
	summary := flag.Bool("summary", false, "print one summary of the last runs without a flag and with -check")
	fetch := flag.String("fetch", "", "only fetch the tool of PyPI with this `name`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newRunner()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	switch {
	case *fetch != "":
		os.Exit(r.fetchOnly(ctx, *fetch))
	case *summary:
		os.Exit(r.summarize("test", "check"))
	case *lint:
		python := r.fetchPythonTools(ctx, lintTools)
		os.Exit(r.runAndSummarize(ctx, r.lintPlan(python), python))
	case *check:
		python := r.fetchPythonTools(ctx, checkTools)
		os.Exit(r.runAndSummarize(ctx, r.checkPlan(python, *seeds), python))
	default:
		python := r.fetchPythonTools(ctx, testTools)
		os.Exit(r.runAndSummarize(ctx, r.testPlan(python), python))
	}
}

// A runner runs checks in the project's root.
type runner struct {
	root, cache string
	out         io.Writer
	progress    *progress
}

func newRunner() (*runner, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if !exists(filepath.Join(root, "go.mod")) {
		return nil, fmt.Errorf("%s is not the project's root", root)
	}
	r := &runner{root: root, cache: filepath.Join(root, ".cache"), out: os.Stdout}
	for _, dir := range []string{"bin", "build", "log", "results", "venv"} {
		if err := os.MkdirAll(filepath.Join(r.cache, dir), 0o755); err != nil {
			return nil, err
		}
	}
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	r.progress = newProgress(r.out, terminal, filepath.Join(r.cache, "times.json"))
	return r, nil
}

// runAndSummarize runs a plan, prints its summary and returns the exit code. It leaves no download
// running.
func (r *runner) runAndSummarize(ctx context.Context, p plan, python *pythonTools) int {
	defer python.wait()
	if err := os.RemoveAll(r.resultsFile(p.command)); err != nil {
		fmt.Fprintln(r.out, err)
		return 1
	}
	res := r.runPlan(ctx, p)
	if ctx.Err() != nil {
		fmt.Fprintln(r.out, "interrupted")
		return 130
	}
	if err := r.saveResults(p.command, res); err != nil {
		fmt.Fprintln(r.out, err)
		return 1
	}
	return r.printSummary(res)
}

// summarize prints one summary of what several commands found last, and returns the exit code.
func (r *runner) summarize(commands ...string) int {
	res, err := r.savedResults(commands)
	if err != nil {
		fmt.Fprintln(r.out, err)
		return 1
	}
	return r.printSummary(res)
}

// environment returns the environment of the checks. It has none of this machine's AWS settings, so
// that no test can reach an account.
func (r *runner) environment() []string {
	env := []string{}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	venv := filepath.Join(r.cache, "venv")
	path := []string{filepath.Join(venv, "aws", "bin"), filepath.Join(venv, "sam", "bin"), os.Getenv("PATH")}
	return append(env,
		"PATH="+strings.Join(path, string(os.PathListSeparator)),
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"SAM_CLI_TELEMETRY=0", "__SAM_CLI_APP_DIR="+filepath.Join(r.cache, "sam"),
	)
}
