package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// follower reports how far an update is until it has ended.
type follower struct {
	command  *upgradeCommand
	client   *client.Client
	streams  *streams
	id       string
	at       time.Time // of the last answer, by Berth's own clock
	last     *whatif.UpgradeProgress
	lastLine []byte // of JSON
}

// printStarted reports only that the update is in progress.
func (f *follower) printStarted() error {
	group := f.command.NodeGroup
	if f.command.JSON {
		return json.NewEncoder(f.streams.out).Encode(map[string]string{"id": f.id, "nodegroup": group,
			"status": string(cluster.UpdateInProgress)})
	}
	_, err := fmt.Fprintf(f.streams.out, "Update %s of node group %s is in progress; `berth upgrade %s` follows it.\n",
		f.id, group, group)
	return err
}

// followUpdate reads and reports the update until it has ended. Failures to read it are retried:
// the update does not depend on them.
func (f *follower) followUpdate(ctx context.Context) error {
	src, err := readLiveCluster(ctx, f.client, f.command.Cluster, f.streams)
	if err != nil {
		return f.reportInterrupted(ctx, err)
	}
	for again := (retries{log: f.streams.err, every: f.command.Every, hasLooked: true}); ; {
		now, err := f.readProgress(ctx, src.snap)
		switch {
		case !again.goesOn(ctx, err):
			return f.reportInterrupted(ctx, err)
		case err == nil:
			if err := f.printChanges(now); err != nil {
				return err
			}
			if now.Status != string(cluster.UpdateInProgress) {
				return f.outcomeOf(now)
			}
			f.last = now
		}
		if err := again.wait(ctx); err != nil {
			return f.reportInterrupted(ctx, err)
		}
	}
}

// readProgress reads the update and its group. It is called for each report, so it asks for as
// little as it can: the cluster's rows, which may be many, are read only once.
func (f *follower) readProgress(ctx context.Context, snap *snapshot.Snapshot) (*whatif.UpgradeProgress, error) {
	capacity, err := whatif.ReadCapacity(ctx, f.client, f.command.Cluster)
	if err != nil {
		return nil, err
	}
	f.at = capacity.Now(time.Now())
	return whatif.MeasureProgress(capacity, f.command.NodeGroup, f.id, snap, f.last)
}

// reportInterrupted says that the update continues without this command.
func (f *follower) reportInterrupted(ctx context.Context, err error) error {
	fmt.Fprintf(f.streams.err, "Update %s continues; `berth upgrade %s` follows it again.\n", f.id, f.command.NodeGroup)
	// An interrupt shows as an error of the read that it interrupted; the exit code must be that of
	// an interrupt.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// printChanges writes what has changed since the last report: a JSON object if it differs, or
// lines.
func (f *follower) printChanges(now *whatif.UpgradeProgress) error {
	if f.command.JSON {
		line, err := json.Marshal(now)
		if err != nil || bytes.Equal(line, f.lastLine) {
			return err
		}
		// Unchanged objects would only repeat themselves every few seconds.
		f.lastLine = line
		_, err = fmt.Fprintf(f.streams.out, "%s\n", line)
		return err
	}
	at := f.at.UTC().Format(time.TimeOnly)
	for _, line := range now.ChangesSince(f.last) {
		if _, err := fmt.Fprintf(f.streams.out, "%s  %s\n", at, line); err != nil {
			return err
		}
	}
	return nil
}

// outcomeOf returns nil for a successful update, else an error with the codes of its errors.
func (f *follower) outcomeOf(now *whatif.UpgradeProgress) error {
	if now.Status == string(cluster.UpdateSuccessful) {
		return nil
	}
	var codes []string
	for _, e := range now.Errors {
		codes = append(codes, e.Code)
	}
	slices.Sort(codes)
	return fmt.Errorf("update %s of node group %s has %s: %s", f.id, f.command.NodeGroup, now.Status,
		strings.Join(slices.Compact(codes), ", "))
}

// maxFailures is how many looks in a row may fail before a command that looks again and again gives up.
const maxFailures = 5

// retries lets a command that looks at a cluster again and again survive looks that fail.
type retries struct {
	log   io.Writer // what fails is written here
	every time.Duration
	// hasLooked reports that a look has succeeded. Until then, a failure is probably a wrong flag.
	hasLooked bool
	failures  int // in a row
}

// goesOn reports whether to look again after a look with this error, which may be nil, and writes an
// error that it survives. It does not go on after an interrupt, for a name that the cluster does not have,
// if the first look failed, and after [maxFailures] in a row.
func (r *retries) goesOn(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		r.hasLooked, r.failures = true, 0
	case ctx.Err() != nil || errors.As(err, new(*whatif.NotFound)) || !r.hasLooked || r.failures == maxFailures:
		return false
	default:
		r.failures++
		fmt.Fprintf(r.log, "berth: %v; trying again in %s\n", err, r.every)
	}
	return true
}

// wait waits for the time of the next look. The error is that of ctx.
func (r *retries) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.every):
		return nil
	}
}
