package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor/account"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/operation"
)

// errProblems says that `berth status` has found something wrong; the answer has said what.
var errProblems = errors.New("something is wrong in the cluster")

// statusCommand prints what is wrong in a cluster, and why. The problems are found here, in the
// cluster's rows, so asking changes nothing.
type statusCommand struct {
	clusterSourceFlags
	JSON  bool          `help:"Print JSON; with --watch, one object per line each time that something has changed."`
	Watch bool          `help:"Repeat until interrupted."`
	Every time.Duration `default:"2s" help:"Time between two looks of --watch."`
}

// Validate names the flag that is wrong.
func (c *statusCommand) Validate() error {
	switch {
	case c.Watch && c.Snapshot != "":
		return fmt.Errorf("--snapshot is %q, expected none beside --watch: a file does not change", c.Snapshot)
	case c.Every < 10*time.Millisecond:
		return fmt.Errorf("--every is %s, expected a time such as 2s", c.Every)
	}
	return c.clusterSourceFlags.Validate()
}

// Run prints the report. The error is errProblems if there are problems.
func (c *statusCommand) Run(ctx context.Context, s *streams) error {
	if c.Watch {
		return c.watch(ctx, s)
	}
	r, err := c.readReport(ctx, s)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(s.out).Encode(r)
	} else {
		err = r.PrintStyled(s.out, styleFor(s.out))
	}
	if err == nil && len(r.Problems) > 0 {
		return errProblems
	}
	return err
}

// styleFor returns the style for an output: colours only on a terminal, and not if NO_COLOR is set.
func styleFor(w io.Writer) problem.Style {
	if usesColor(w) {
		return problem.ANSI
	}
	return problem.Style{}
}

func usesColor(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// readReport reads the cluster and finds its problems. A user who may not read Auto Scaling groups
// gets the rest, and the report says so.
func (c *statusCommand) readReport(ctx context.Context, s *streams) (*problem.Report, error) {
	src, err := openSource(ctx, s, &c.clusterSourceFlags)
	if err != nil {
		return nil, err
	}
	capacity, err := src.readCapacity(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	in := problem.Input{Cluster: c.clusterSourceFlags.Cluster, Snapshot: src.snap, Capacity: capacity,
		Now: capacity.Now(src.readAt), Callers: callersOf(c.clusterSourceFlags.Endpoint)}
	if src.live != nil {
		var unread error
		if in.DeadLetters, unread = c.readDeadLetters(ctx, capacity); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err = errors.Join(err, unread)
	}
	r := problem.NewReport(in)
	if err != nil {
		r.Unread = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return r, nil
}

// readDeadLetters returns the dead-letter queues of the installation that was asked, from SQS if its
// stack is known.
func (f *clusterFlags) readDeadLetters(ctx context.Context, k *whatif.Capacity) ([]operation.DeadLetters, error) {
	stack := cmp.Or(f.Stack, os.Getenv("BERTH_STACK"))
	if f.Endpoint.Endpoint != "" || stack == "" {
		if k == nil {
			return nil, nil
		}
		return k.DeadLetters, nil
	}
	aws, err := client.LoadAWS(ctx, f.Endpoint, time.Now)
	if err != nil {
		return nil, err
	}
	return account.ReadDeadLetters(ctx, account.Options{Stack: stack, AWS: aws, CallTimeout: callTimeout})
}

// watch prints the report each time that it has changed. On a terminal it replaces the one before.
func (c *statusCommand) watch(ctx context.Context, s *streams) error {
	var last []byte
	for again := (retries{log: s.err, every: c.Every}); ; {
		r, err := c.readReport(ctx, s)
		if !again.goesOn(ctx, err) {
			return err
		}
		if err == nil {
			if err := c.printReport(s.out, &last, r); err != nil {
				return err
			}
		}
		if err := again.wait(ctx); err != nil {
			return err
		}
	}
}

// printReport writes a report unless the one before says the same.
func (c *statusCommand) printReport(w io.Writer, last *[]byte, r *problem.Report) error {
	var out bytes.Buffer
	if !c.JSON {
		_ = r.PrintStyled(&out, styleFor(w))
		return c.printChange(w, last, bytes.Clone(out.Bytes()), out.Bytes())
	}
	at := r.At
	r.At = time.Time{} // what only the clock changes is no change
	key, _ := json.Marshal(r)
	r.At = at
	if err := json.NewEncoder(&out).Encode(r); err != nil {
		return err
	}
	return c.printChange(w, last, key, out.Bytes())
}

// printChange writes a text unless its key is that of the text before.
func (c *statusCommand) printChange(w io.Writer, last *[]byte, key, text []byte) error {
	if bytes.Equal(*last, key) {
		return nil
	}
	before := ""
	switch {
	case c.JSON:
	case isTerminal(w):
		before = "\x1b[H\x1b[2J"
	case *last != nil:
		before = "\n"
	}
	*last = key
	_, err := fmt.Fprintf(w, "%s%s", before, text)
	return err
}
