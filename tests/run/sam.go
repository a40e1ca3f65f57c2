//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// samValidate checks the template without an account.
func (r *runner) samValidate(sam *tool) check {
	return func(ctx context.Context, log io.Writer) result {
		if !sam.ready() {
			return skipped("no sam CLI")
		}
		return r.command(sam.bin("sam"), "validate", "--lint", "--template", "template.yaml")(ctx, log)
	}
}

// templates has a tool look at template.yaml and what it includes; flag stands before each of them.
func (r *runner) templates(t *tool, args []string, flag string) check {
	return func(ctx context.Context, log io.Writer) result {
		if !t.ready() {
			return t.step(ctx, log)
		}
		included, err := filepath.Glob(filepath.Join(r.root, "infra", "*.yaml"))
		if err != nil {
			return failed(log, err)
		}
		for _, file := range append([]string{filepath.Join(r.root, "template.yaml")}, included...) {
			if flag != "" {
				args = append(args, flag)
			}
			args = append(args, file)
		}
		res := r.command(t.bin(t.name), args...)(ctx, log)
		res.note = t.note
		return res
	}
}

// scripts has make read what this machine cannot run, and shellcheck look at the shell scripts.
func (r *runner) scripts(t *tool) check {
	return func(ctx context.Context, log io.Writer) result {
		for _, args := range [][]string{{"deploy", "destroy"}, {"-C", "localstack", "up", "fleet", "deploy", "smoke", "destroy", "down"}} {
			if err := r.exec(ctx, io.Discard, nil, "make", append([]string{"-n"}, args...)...); err != nil {
				return failed(log, err)
			}
		}
		if !t.ready() {
			return t.step(ctx, log)
		}
		res := r.command(t.bin("shellcheck"), ".ci/run", "localstack/smoke.sh")(ctx, log)
		res.note = t.note
		return res
	}
}

func (r *runner) samBuilt() string { return filepath.Join(r.cache, "sam-build") }

// samBuild builds what `make deploy` would upload, with its flags.
func (r *runner) samBuild(sam *tool) check {
	return func(ctx context.Context, log io.Writer) result {
		if !sam.ready() {
			return skipped("no sam CLI")
		}
		flags, err := r.lambdaFlags()
		if err != nil {
			return failed(log, err)
		}
		err = r.exec(ctx, log, []string{"GOFLAGS=" + flags, "CGO_ENABLED=0"},
			sam.bin("sam"), "build", "--template", "template.yaml", "--build-dir", r.samBuilt())
		if err != nil {
			return failed(log, err)
		}
		template, err := os.ReadFile(filepath.Join(r.root, "template.yaml"))
		names, err2 := r.functions()
		if err := errors.Join(err, err2); err != nil {
			return failed(log, err)
		}
		return sizes(log, names, func(name string) string {
			id, _ := functionOf(string(template), "functions/"+name) // where there is none, neither is the binary
			return filepath.Join(r.samBuilt(), id, "bootstrap")
		})
	}
}

var lambdaFlags = regexp.MustCompile(`(?m)^LAMBDA_GOFLAGS := (.+)$`)

// lambdaFlags are the Makefile's, with which functions are built.
func (r *runner) lambdaFlags() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		return "", err
	}
	m := lambdaFlags.FindSubmatch(text)
	if m == nil {
		return "", errors.New("the Makefile has no LAMBDA_GOFLAGS")
	}
	return string(m[1]), nil
}

// samLocalInvoke runs a function in Lambda's own image, where there is a Docker engine that can: it drops a message
// that is no event, and so needs no account.
func (r *runner) samLocalInvoke(sam *tool) check {
	return func(ctx context.Context, log io.Writer) result {
		if !sam.ready() {
			return skipped("no sam CLI")
		}
		if why := r.noDocker(ctx); why != "" {
			return skipped(why)
		}
		template, err := os.ReadFile(filepath.Join(r.root, "template.yaml"))
		if err != nil {
			return failed(log, err)
		}
		id, err := functionOf(string(template), "functions/task-state-change")
		if err != nil {
			return failed(log, err)
		}
		event := filepath.Join(r.cache, "no-event.json")
		if err := os.WriteFile(event, []byte(noEvent), 0o644); err != nil {
			return failed(log, err)
		}
		var out bytes.Buffer
		err = r.exec(ctx, io.MultiWriter(&out, log), nil, sam.bin("sam"), "local", "invoke", id,
			"--template", filepath.Join(r.samBuilt(), "template.yaml"), "--event", event)
		if err == nil && !strings.Contains(out.String(), "batchItemFailures") {
			err = fmt.Errorf("%s did not say which messages failed", id)
		}
		if err != nil {
			return failed(log, err)
		}
		return passed
	}
}

const noEvent = `{"Records": [{"messageId": "1", "eventSource": "aws:sqs", "body": "no event"}]}`

// noDocker says why functions cannot run here; empty where they can. They are built for arm64.
func (r *runner) noDocker(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	arch, err := r.output(ctx, "docker", "info", "--format", "{{.Architecture}}")
	if err != nil {
		return "no Docker engine"
	}
	if arch != "aarch64" && arch != "arm64" && !exists("/proc/sys/fs/binfmt_misc/qemu-aarch64") {
		return "the functions are arm64, the Docker engine is " + arch
	}
	return ""
}

var resource = regexp.MustCompile(`^  (\w+):\s*(#.*)?$`)

// functionOf is the logical id of the function whose code is in dir.
func functionOf(template, dir string) (string, error) {
	id := ""
	for line := range strings.Lines(template) {
		line = strings.TrimRight(line, "\r\n")
		if m := resource.FindStringSubmatch(line); m != nil {
			id = m[1]
		}
		if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "CodeUri:"); ok && strings.Trim(strings.TrimSpace(uri), "./") == dir {
			return id, nil
		}
	}
	return "", fmt.Errorf("template.yaml has no function with CodeUri %s", dir)
}
