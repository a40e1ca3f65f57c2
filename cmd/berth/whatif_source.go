package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-isatty"

	"berth/cmd/berth/client"
	"berth/cmd/berth/trace"
	"berth/cmd/berth/whatif"
	"berth/shared/snapshot"
	"berth/shared/wire/berthapi"
)

// sourceFlags say which cluster a question is about.
type sourceFlags struct {
	client.Endpoint
	Cluster  string `default:"default" help:"Name of the cluster, at an endpoint."`
	Snapshot string `help:"Ask about the cluster in this file instead, as --save wrote it." type:"existingfile" placeholder:"FILE"`
	Nodes    string `help:"Ask about an empty cluster of these nodes instead. CSV: sn,cpu_milli,memory_mib,gpu,model." type:"existingfile" placeholder:"FILE"`
	Trace    bool   `help:"Ask about an empty cluster of the shipped trace's nodes instead."`
	Save     string `help:"Write what placement knows of the cluster to this file." type:"path" placeholder:"FILE"`
}

// Validate refuses flags that exclude each other.
func (f *sourceFlags) Validate() error {
	switch {
	case f.Snapshot != "" && f.Nodes != "":
		return fmt.Errorf("--snapshot is %q, expected none beside --nodes", f.Snapshot)
	case f.Snapshot != "" && f.Trace:
		return fmt.Errorf("--snapshot is %q, expected none beside --trace", f.Snapshot)
	case f.Nodes != "" && f.Trace:
		return fmt.Errorf("--nodes is %q, expected none beside --trace", f.Nodes)
	case f.Save != "" && !f.isLive():
		return fmt.Errorf("--save is %q, expected only with an endpoint, not with --snapshot, --nodes or --trace",
			f.Save)
	case !clusterNames.MatchString(f.Cluster):
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", f.Cluster)
	}
	return nil
}

func (f *sourceFlags) isLive() bool { return f.Snapshot == "" && f.Nodes == "" && !f.Trace }

// source is the cluster that a question is about; live is nil where there is no endpoint to ask
// more of.
type source struct {
	snap *snapshot.Snapshot
	live *client.Client
}

// openSource reads the cluster, and saves it if wanted.
func (f *sourceFlags) openSource(ctx context.Context, say *progress) (*source, error) {
	switch {
	case f.Trace || f.Nodes != "":
		nodes, err := readList(f.Nodes, trace.DefaultNodes, trace.ReadNodes)
		if err != nil {
			return nil, err
		}
		return &source{snap: whatif.SnapshotOfNodes(nodes)}, nil
	case f.Snapshot != "":
		rows, err := readList(f.Snapshot, nil, func(r io.Reader) ([]berthapi.Row, error) {
			return whatif.ReadSavedRows(r, func(n int) { say.report("reading %s: %d rows so far", f.Snapshot, n) })
		})
		if err != nil {
			return nil, err
		}
		return f.buildSource(rows, nil, say)
	}
	c, err := client.New(ctx, f.Endpoint)
	if err != nil {
		return nil, err
	}
	rows, err := whatif.ReadRows(ctx, c, f.Cluster, func(n int) {
		say.report("reading the cluster: %d rows so far",
			n)
	})
	if err != nil {
		return nil, err
	}
	if f.Save != "" {
		if err := saveFile(f.Save, rows); err != nil {
			return nil, fmt.Errorf("--save: %w", err)
		}
	}
	return f.buildSource(rows, c, say)
}

func (f *sourceFlags) buildSource(rows []berthapi.Row, c *client.Client, say *progress) (*source, error) {
	snap, err := whatif.BuildSnapshot(rows, func(n int) {
		say.report("building the cluster: %d of %d rows", n,
			len(rows))
	})
	if err != nil && f.Snapshot != "" {
		return nil, fmt.Errorf("%s: %w", f.Snapshot, err)
	} else if err != nil {
		return nil, err
	}
	return &source{snap, c}, nil
}

// saveFile writes the rows so that the file is whole or as before.
func saveFile(path string, rows []berthapi.Row) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".berth-save-*")
	if err != nil {
		return err
	}
	err = errors.Join(whatif.SaveRows(f, rows), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// progress says now and then how far a command is, once that takes longer than one likes to wait.
type progress struct {
	w          io.Writer
	clock      func() time.Time
	last       time.Time
	begin, end string
	reported   bool
}

func newProgress(w io.Writer, clock func() time.Time) *progress {
	t := &progress{w: w, clock: clock, last: clock(), end: "\n"}
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		t.begin, t.end = "\r\x1b[K", ""
	}
	return t
}

func (t *progress) report(format string, args ...any) {
	if now := t.clock(); now.Sub(t.last) >= silence {
		t.last, t.reported = now, true
		fmt.Fprintf(t.w, t.begin+format+t.end, args...)
	}
}

func (t *progress) finish() {
	if t.reported {
		fmt.Fprint(t.w, t.begin)
	}
}
