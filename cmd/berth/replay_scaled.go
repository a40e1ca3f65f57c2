package main

import (
	"context"
	"encoding/json"
	"fmt"

	"berth/cmd/berth/replay"
)

// scaledResult is what `berth replay --scale` prints as JSON.
type scaledResult struct {
	Original    *replay.Scaled `json:"original,omitempty"`
	Consolidate *replay.Scaled `json:"consolidate,omitempty"`
	// Ratio is the instance-hours with consolidation by those of the original's rules; 0 where only
	// one was run.
	Ratio float64 `json:"ratio,omitempty"`
}

// runScaled replays on groups, and compares where both are asked for.
func (r *replayCommand) runScaled(ctx context.Context, s *streams, o replay.Options) error {
	var out scaledResult
	for _, mode := range []struct {
		name        string
		consolidate bool
		to          **replay.Scaled
	}{{"original", false, &out.Original}, {"consolidate", true, &out.Consolidate}} {
		if r.Scale != mode.name && r.Scale != "both" {
			continue
		}
		progress, done := progressBar(s.err, len(o.Tasks))
		o.Progress = progress
		got, err := replay.RunScaled(ctx, o, mode.consolidate)
		done(err == nil)
		if err != nil {
			return fmt.Errorf("replaying with %s: %w", mode.name, err)
		}
		*mode.to = &got
		if r.JSON {
			continue
		}
		if _, err := fmt.Fprintf(s.out,
			"%-12s %.0f instance-hours, %d at most, in %d groups over %.1f days; %d of %d tasks ran, %d moves, %d services outside their percentages (%.0f s)\n",
			mode.name, got.InstanceHours, got.PeakInstances, got.Groups, got.Days, got.Ran, got.Tasks, got.Moved,
			got.Violated, got.WallSeconds); err != nil {
			return err
		}
	}
	if out.Original != nil && out.Consolidate != nil && out.Original.InstanceHours > 0 {
		out.Ratio = out.Consolidate.InstanceHours / out.Original.InstanceHours
	}
	if r.JSON {
		return json.NewEncoder(s.out).Encode(out)
	}
	if out.Ratio > 0 {
		_, err := fmt.Fprintf(s.out, "ratio        %.3f (%.1f %% fewer with consolidation)\n", out.Ratio,
			100*(1-out.Ratio))
		return err
	}
	return nil
}
