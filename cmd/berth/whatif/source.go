// Package whatif asks the placement engine where tasks would go in a cluster as it is, or was, or as a trace describes
// one, and why not elsewhere. It changes nothing.
package whatif

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"berth/cmd/berth/client"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/wire"
)

// Live reads the rows of a cluster from a running Berth. progress is called with how many there are so far.
func Live(ctx context.Context, c *client.Client, clusterName string, progress func(rows int)) ([]wire.Row, error) {
	var out []wire.Row
	for token := ""; ; {
		var page wire.RowsOutput
		if err := c.Own(ctx, "ListClusterRows", wire.RowsInput{Cluster: clusterName, NextToken: token}, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Rows...)
		progress(len(out))
		if token = page.NextToken; token == "" {
			return out, nil
		}
	}
}

// Save writes rows, one a line, for [Saved] to read.
func Save(w io.Writer, rows []wire.Row) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// maxLine is how long one row may be: what DynamoDB stores in an item, as JSON.
const maxLine = 1 << 20

// Saved reads what [Save] wrote. The error names the line.
func Saved(r io.Reader) ([]wire.Row, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var out []wire.Row
	for n := 1; scanner.Scan(); n++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		var row wire.Row
		if err := json.Unmarshal(scanner.Bytes(), &row); err != nil || row.Sort == "" {
			return nil, fmt.Errorf("line %d: %.60q is no row of a saved snapshot", n, scanner.Text())
		}
		out = append(out, row)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
	}
	return out, nil
}

// Snapshot is the cluster that the rows make up.
func Snapshot(rows []wire.Row) (*cluster.Snapshot, error) {
	snap := cluster.NewSnapshot()
	for _, r := range rows {
		row, err := cluster.DecodeRow(r.Sort, r.Row)
		if err != nil {
			return nil, err
		}
		snap.Put(row)
	}
	return snap, nil
}

// ModelAttribute is the attribute of a trace's instance that names the model of its GPUs.
const ModelAttribute = "gpu-model"

// Traced is an empty cluster of a trace's nodes.
func Traced(nodes []trace.Node) *cluster.Snapshot {
	snap := cluster.NewSnapshot()
	for _, n := range nodes {
		i := &cluster.Instance{
			Head: cluster.Head{Cluster: "trace", Rev: 1}, ID: n.Name, Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: n.CPUMilli * cluster.MilliVCPU, Memory: n.MemoryMiB, GPUs: make([]string, n.GPUs)},
			Attributes: map[string]string{},
		}
		if n.Model != "" {
			i.Attributes[ModelAttribute] = n.Model
		}
		snap.Put(i)
	}
	return snap
}
