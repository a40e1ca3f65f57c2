package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/trace"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// clusterSourceFlags say which cluster a question is about: one at an endpoint, or one in a file.
type clusterSourceFlags struct {
	clusterFlags
	Snapshot string `help:"Ask about the cluster in a file that --save wrote." type:"existingfile" placeholder:"FILE"`
	Save     string `help:"Save what placement knows of the cluster to this file." type:"path" placeholder:"FILE"`
}

// Validate refuses flags that exclude each other.
func (f *clusterSourceFlags) Validate() error {
	if f.Save != "" && f.Snapshot != "" {
		return fmt.Errorf("--save is %q, expected only with an endpoint, not with --snapshot", f.Save)
	}
	return f.clusterFlags.Validate()
}

// sourceFlags say which cluster a question is about: as [clusterSourceFlags], or an empty one of given
// nodes.
type sourceFlags struct {
	clusterSourceFlags
	Nodes string `help:"Ask about an empty cluster of these nodes (CSV)." type:"existingfile" placeholder:"FILE"`
	Trace bool   `help:"Ask about an empty cluster of the shipped trace's nodes."`
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
	case f.Save != "" && (f.Nodes != "" || f.Trace):
		return fmt.Errorf("--save is %q, expected only with an endpoint, not with --nodes or --trace", f.Save)
	}
	return f.clusterSourceFlags.Validate()
}

// source is the cluster that a question is about. live is nil if there is no endpoint to ask for
// more.
type source struct {
	snap    *snapshot.Snapshot
	live    *client.Client
	cluster string
	// readAt is when the cluster was read, by its scheduler's clock; for a file, when that was saved.
	readAt time.Time
}

// nameOf returns the name in an ARN, or the name itself. An ARN of another cluster is the error that
// the API answers: the same name may exist here too.
func (s *source) nameOf(ref string) (string, error) {
	arn, isARN := cluster.ParseARN(ref)
	if isARN && s.cluster != "" && arn.Cluster != "" && arn.Cluster != s.cluster {
		return "", cluster.Errorf(cluster.CodeInvalidParameter,
			"Invalid identifier: Identifier is for %s. Your cluster is %s", arn.Cluster, s.cluster)
	}
	return cluster.LastPart(ref), nil
}

// readCapacity reads the groups that the cluster's instances come from; nil without an endpoint.
func (s *source) readCapacity(ctx context.Context) (*whatif.Capacity, error) {
	if s.live == nil {
		return nil, nil
	}
	return whatif.ReadCapacity(ctx, s.live, s.cluster)
}

// A sourceOpener opens the cluster that a question is about. Reading a large cluster takes seconds, which
// p reports.
type sourceOpener interface {
	openClusterSource(ctx context.Context, p *progress) (*source, error)
}

// openClusterSource implements [sourceOpener], and saves the cluster if asked to.
func (f *clusterSourceFlags) openClusterSource(ctx context.Context, p *progress) (*source, error) {
	if f.Snapshot != "" {
		return f.openSavedCluster(p)
	}
	c, err := f.newClient(ctx)
	if err != nil {
		return nil, err
	}
	return openLiveCluster(ctx, c, f.Cluster, f.Save, p)
}

// openClusterSource implements [sourceOpener].
func (f *sourceFlags) openClusterSource(ctx context.Context, p *progress) (*source, error) {
	if !f.Trace && f.Nodes == "" {
		return f.clusterSourceFlags.openClusterSource(ctx, p)
	}
	nodes, err := readList(f.Nodes, trace.DefaultNodes, trace.ReadNodes)
	if err != nil {
		return nil, err
	}
	return &source{snap: whatif.SnapshotOfNodes(nodes), readAt: time.Now()}, nil
}

// openSource reads the cluster that a question is about, and reports how far it is.
func openSource(ctx context.Context, s *streams, from sourceOpener) (*source, error) {
	p := newProgress(s.err, time.Now)
	defer p.clearReport()
	return from.openClusterSource(ctx, p)
}

// explainUnknownCluster lists the clusters that Berth answers for if the error is that there is none of
// the name.
func explainUnknownCluster(ctx context.Context, c *client.Client, name string, err error) error {
	// The error of a simulated AWS has the code as text only.
	if cluster.ErrorCode(err) != cluster.CodeClusterNotFound &&
		!strings.Contains(err.Error(), string(cluster.CodeClusterNotFound)) {
		return err
	}
	names, unlisted := c.ClusterNames(ctx)
	if unlisted != nil || slices.Contains(names, name) {
		return err
	}
	return &whatif.NotFound{Kind: "cluster", Name: name, Known: names}
}

// openLiveCluster reads a cluster from a running Berth, and saves it to a file if one is named.
func openLiveCluster(ctx context.Context, c *client.Client, name, save string, p *progress) (*source, error) {
	rows, at, err := whatif.ReadRows(ctx, c, name, p.reportRows("the cluster"))
	if err != nil {
		return nil, explainUnknownCluster(ctx, c, name, err)
	}
	if save != "" {
		saved := whatif.Saved{Cluster: name, At: at, Rows: rows}
		if err := writeWholeFile(save, saved.Save); err != nil {
			return nil, fmt.Errorf("--save: %w", err)
		}
	}
	snap, err := whatif.BuildSnapshot(rows)
	return &source{snap: snap, live: c, cluster: name, readAt: at}, err
}

// openSavedCluster reads a cluster from a file. From then on, the flags are about the cluster that the file
// names; they may name no other one but the default. A file of an earlier version names none, and was saved when
// it was last changed. Errors name the file.
func (f *clusterSourceFlags) openSavedCluster(p *progress) (*source, error) {
	file, err := os.Open(f.Snapshot)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	saved, err := whatif.ReadSaved(file, p.reportRows(f.Snapshot))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Snapshot, err)
	}
	snap, err := whatif.BuildSnapshot(saved.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Snapshot, err)
	}
	out := &source{snap: snap, cluster: saved.Cluster, readAt: saved.At}
	if saved.Cluster == "" {
		out.readAt = info.ModTime()
		return out, nil
	}
	if f.Cluster != cluster.DefaultName && f.Cluster != saved.Cluster {
		return nil, fmt.Errorf("--cluster is %q, but %s has cluster %s: leave --cluster out, or name the file of %[1]q",
			f.Cluster, f.Snapshot, saved.Cluster)
	}
	f.Cluster = saved.Cluster
	return out, nil
}

// readLiveCluster reads a cluster from a running Berth, and reports how far it is.
func readLiveCluster(ctx context.Context, c *client.Client, name string, s *streams) (*source, error) {
	p := newProgress(s.err, time.Now)
	defer p.clearReport()
	return openLiveCluster(ctx, c, name, "", p)
}

// wholeFile is a file that gets its name when it is written, so that a failure leaves an earlier file as it
// was.
type wholeFile struct {
	path      string
	temporary *os.File
}

// createWholeFile creates the temporary file beside the path. Before long work, it shows whether the file
// can be written.
func createWholeFile(path string) (*wholeFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".berth-save-*")
	return &wholeFile{path, f}, err
}

// write writes the content, and gives the file its name.
func (f *wholeFile) write(content func(io.Writer) error) error {
	err := errors.Join(content(f.temporary), f.temporary.Sync(), f.temporary.Close())
	if err == nil {
		err = os.Rename(f.temporary.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.temporary.Name())
	}
	return err
}

// discard removes a file that has not been written.
func (f *wholeFile) discard() {
	if f.temporary.Close() == nil {
		_ = os.Remove(f.temporary.Name())
	}
}

// writeWholeFile writes a file, whole or not at all.
func writeWholeFile(path string, content func(io.Writer) error) error {
	f, err := createWholeFile(path)
	if err != nil {
		return err
	}
	return f.write(content)
}
