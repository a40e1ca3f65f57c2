package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/shared/cluster"
)

// On a full disk a small write succeeds now and then. That the folder cannot be written is said once
// for each file, and that it can be again once they all are, for a while.
func TestFullDiskIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := diskReport{w: &out}
		full := func(path string) error { return &cluster.UnwritableError{Path: path, Cause: errors.New("full")} }
		said := func(what string) int { return strings.Count(out.String(), what) }
		for n := range 20 {
			d.report(full("state.db"))
			if n == 5 {
				d.report(full("fleet.db"))
			}
			<-time.After(time.Second)
			d.report(nil)
			<-time.After(time.Second)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if said("state.db cannot") != 1 || said("fleet.db cannot") != 1 || said("written again") != 0 {
			t.Errorf("while fleet.db cannot be written:\n%s", &out)
		}
		d.report(nil)
		<-time.After(time.Minute)
		synctest.Wait()
		if said("written again") != 1 {
			t.Errorf("with space again:\n%s", &out)
		}
		d.report(full("state.db"))
		if said("state.db cannot") != 2 {
			t.Errorf("full a second time:\n%s", &out)
		}
	})
}

func TestUnknownOutcomeEndsBerth(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	d := diskReport{end: end}
	lost := fmt.Errorf("gone: %w", cluster.ErrAmbiguous)
	if d.report(lost); !errors.Is(context.Cause(ctx), lost) {
		t.Errorf("%v, want an end with %v", context.Cause(ctx), lost)
	}
}
