package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"berth/tests/bench/workload"
)

// runPeers builds and runs tests/bench/peers, a module of its own. Go fetches what it requires.
func (b *bench) runPeers(ctx context.Context) error {
	cache, err := filepath.Abs(".cache")
	if err != nil {
		return err
	}
	binary, built := filepath.Join(cache, "bin", "peers"), filepath.Join(cache, "peers")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	b.reportProgress("building the peers: the first time this fetches Kubernetes and Karpenter and takes minutes")
	build := b.command(ctx, "go", "-C", filepath.Join("tests", "bench", "peers"), "build", "-o", binary, ".")
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the peers, from the project's root: %w", err)
	}
	run := b.command(ctx, binary, "-json", "-dir", built, "-peer", b.peers, "-workload", b.workloads, "-start",
		b.starts,
		"-nodes", b.nodes, "-seed", fmt.Sprint(b.seed), "-seconds", fmt.Sprint(b.peerSeconds))
	run.Stdout = nil
	out, err := run.StdoutPipe()
	if err != nil {
		return err
	}
	if err := run.Start(); err != nil {
		return fmt.Errorf("running the peers: %w", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r workload.Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			b.reportProgress("%s", lines.Text())
			continue
		}
		b.addResult(r)
	}
	if err := run.Wait(); err != nil {
		return fmt.Errorf("running the peers: %w", err)
	}
	return nil
}

// command returns a command that is interrupted when the context ends, and has some time to end by
// itself.
func (b *bench) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Stdout, c.Stderr = b.progress, b.progress
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 15 * time.Second
	return c
}
