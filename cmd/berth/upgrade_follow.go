package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// maxMisses is how many looks in a row may fail before the following ends.
const maxMisses = 5

// follower says how far an update is until it has ended.
type follower struct {
	*upgradeCommand
	client   *client.Client
	streams  *streams
	id       string
	clock    func() time.Time
	last     *whatif.UpgradeProgress
	lastLine []byte // the last line of JSON
}

// printBegun says only that the update is under way.
func (f *follower) printBegun() error {
	if f.JSON {
		return json.NewEncoder(f.streams.out).Encode(map[string]string{"id": f.id, "nodegroup": f.NodeGroup,
			"status": string(cluster.UpdateInProgress)})
	}
	_, err := fmt.Fprintf(f.streams.out, "Update %s of node group %s is in progress; `berth upgrade %s` follows it.\n",
		f.id, f.NodeGroup, f.NodeGroup)
	return err
}

// followUpdate looks again and again. What it cannot see for a while it will see later: the update
// does not need it.
func (f *follower) followUpdate(ctx context.Context) error {
	snap, err := f.readSnapshot(ctx, f.streams, f.client)
	if err != nil {
		return f.reportInterrupted(ctx, err)
	}
	for failures := 0; ; {
		now, err := f.readProgress(ctx, snap)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil || errors.As(err, new(*whatif.NotFound)) || failures == maxMisses:
			return f.reportInterrupted(ctx, err)
		default:
			failures++
			fmt.Fprintf(f.streams.err, "berth: %v; looking again in %s\n", err, f.Every)
		}
		if err == nil {
			if err := f.printChanges(now); err != nil {
				return err
			}
			if now.Status != string(cluster.UpdateInProgress) {
				return f.reportOutcome(now)
			}
			f.last = now
		}
		select {
		case <-ctx.Done():
			return f.reportInterrupted(ctx, ctx.Err())
		case <-time.After(f.Every):
		}
	}
}

func (f *follower) readProgress(ctx context.Context, snap *snapshot.Snapshot) (*whatif.UpgradeProgress, error) {
	k, err := whatif.ReadCapacity(ctx, f.client, f.Cluster)
	if err != nil {
		return nil, err
	}
	return whatif.ReadProgress(k, f.NodeGroup, f.id, snap, f.last)
}

// reportInterrupted says that the update goes on without whoever looked.
func (f *follower) reportInterrupted(ctx context.Context, err error) error {
	fmt.Fprintf(f.streams.err, "Update %s goes on; `berth upgrade %s` follows it again.\n", f.id, f.NodeGroup)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// printChanges prints what has changed.
func (f *follower) printChanges(now *whatif.UpgradeProgress) error {
	if f.JSON {
		line, err := json.Marshal(now)
		if err != nil || bytes.Equal(line, f.lastLine) {
			return err
		}
		f.lastLine = line
		_, err = fmt.Fprintf(f.streams.out, "%s\n", line)
		return err
	}
	at := f.clock().Format(time.TimeOnly)
	for _, line := range now.ChangesSince(f.last) {
		if _, err := fmt.Fprintf(f.streams.out, "%s  %s\n", at, line); err != nil {
			return err
		}
	}
	return nil
}

// reportOutcome is how the update ended.
func (f *follower) reportOutcome(now *whatif.UpgradeProgress) error {
	if now.Status == string(cluster.UpdateSuccessful) {
		return nil
	}
	var codes []string
	for _, e := range now.Errors {
		codes = append(codes, e.Code)
	}
	slices.Sort(codes)
	return fmt.Errorf("update %s of node group %s has %s: %s", f.id, f.NodeGroup, now.Status,
		strings.Join(slices.Compact(codes), ", "))
}
