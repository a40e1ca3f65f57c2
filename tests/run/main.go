//go:build unix

// Command run is `make test` and `make lint`: it runs every check of the project, fetches into .cache/ what the checks
// need, prints a line for each and, at the end, what passed, what failed and what was skipped and why.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	lint := flag.Bool("lint", false, "only the checks that run no code of the project")
	fetch := flag.String("fetch", "", "only fetch the tool of PyPI of this name")
	seeds := flag.Int("seeds", 300, "how many seeds to simulate")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newRunner()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if *fetch != "" {
		os.Exit(r.fetchOnly(ctx, *fetch))
	}
	os.Exit(r.all(ctx, *lint, *seeds))
}

func newRunner() (*runner, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "template.yaml")); err != nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
			return nil, fmt.Errorf("%s is not the project's root", root)
		}
	}
	r := &runner{root: root, cache: filepath.Join(root, ".cache"), out: os.Stdout}
	if info, err := os.Stdout.Stat(); err == nil {
		r.terminal = info.Mode()&os.ModeCharDevice != 0
	}
	for _, dir := range []string{"bin", "build", "log", "venv"} {
		if err := os.MkdirAll(filepath.Join(r.cache, dir), 0o755); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// all runs the checks and gives the exit code.
func (r *runner) all(ctx context.Context, lint bool, seeds int) int {
	python := r.fetchPythonTools(ctx, lint)
	defer python.wait() // leave no pip behind
	steps := []step{
		{"gofmt", r.gofmt},
		{"go vet", r.command("go", "vet", "./...")},
		{"staticcheck", r.staticcheck},
	}
	if !lint {
		steps = append(steps,
			step{"build functions, linux/arm64", r.buildFunctions("arm64")},
			step{"build functions, linux/amd64", r.buildFunctions("amd64")},
			step{"fetch MiniStack", python.ministack.step},
			step{"fetch aws CLI", python.aws.step},
			step{"fetch moto", python.moto.step},
			step{"go test", r.tests},
			step{"go test -race", r.race},
			step{fmt.Sprintf("simulate %d seeds", seeds), r.simulate(seeds)},
		)
	}
	steps = append(steps,
		step{"fetch sam CLI", python.sam.step},
		step{"sam validate --lint", r.samValidate(python.sam)},
		step{"cfn-lint", r.templates(python.cfnLint, nil, "")},
		step{"checkov", r.templates(python.checkov, []string{"--config-file", "tools/checkov.yaml"}, "-f")},
		step{"shellcheck", r.scripts(python.shellcheck)},
	)
	if !lint {
		steps = append(steps, step{"sam build", r.samBuild(python.sam)}, step{"sam local invoke", r.samLocalInvoke(python.sam)})
	}
	for _, s := range steps {
		r.run(ctx, s)
		if ctx.Err() != nil {
			fmt.Fprintln(r.out, "interrupted")
			return 130
		}
	}
	return r.summary()
}

// summary prints what was skipped and why, what failed, and the counts, and keeps that in .cache/summary: a single
// check counts one, a run of tests each test. It gives the exit code.
func (r *runner) summary() int {
	var text strings.Builder
	for _, s := range r.total.skips {
		fmt.Fprintf(&text, "skipped: %s: %s\n", s.what, s.why)
	}
	for _, f := range r.total.failures {
		fmt.Fprintf(&text, "failed: %s\n", f)
	}
	if text.Len() > 0 {
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "%d passed, %d failed, %d skipped\n", r.total.passed, len(r.total.failures), len(r.total.skips))
	fmt.Fprint(r.out, "\n", text.String())
	if err := os.WriteFile(filepath.Join(r.cache, "summary"), []byte(text.String()), 0o644); err != nil {
		fmt.Fprintln(r.out, err)
		return 1
	}
	if len(r.total.failures) > 0 {
		return 1
	}
	return 0
}

// environment is what checks run in: this machine's AWS settings are kept away, so that no test can reach an account.
func (r *runner) environment() []string {
	env := []string{}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	bins := []string{filepath.Join(r.cache, "venv", "aws", "bin"), filepath.Join(r.cache, "venv", "sam", "bin"), os.Getenv("PATH")}
	return append(env,
		"PATH="+strings.Join(bins, string(os.PathListSeparator)),
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"SAM_CLI_TELEMETRY=0", "__SAM_CLI_APP_DIR="+filepath.Join(r.cache, "sam"),
	)
}
