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
	"strings"
	"time"
)

// samBuilt is the folder that sam build writes.
func (r *runner) samBuilt() string { return filepath.Join(r.cache, "sam-build") }

// samBuild returns an action that builds what `make deploy` uploads, with its flags.
func (r *runner) samBuild(sam *tool) action {
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
		names, err2 := r.functionNames()
		if err := errors.Join(err, err2); err != nil {
			return failed(log, err)
		}
		return checkSizes(log, names, "arm64", func(name string) string {
			id, _ := functionID(string(template), "functions/"+name) // without an id the binary is not found
			return filepath.Join(r.samBuilt(), id, "bootstrap")
		})
	}
}

// samLocalInvoke returns an action that runs a function in Lambda's own image, if there is a Docker
// engine that can. The function gets a message that is not an event. It drops that, and so needs no
// account.
func (r *runner) samLocalInvoke(sam *tool) action {
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
		id, err := functionID(string(template), "functions/task-state-change")
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
		return passed()
	}
}

const noEvent = `{"Records": [{"messageId": "1", "eventSource": "aws:sqs", "body": "no event"}]}`

// noDocker says why functions, which are built for arm64, cannot run in Docker here. It returns ""
// if they can.
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
