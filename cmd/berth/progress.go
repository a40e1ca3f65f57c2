package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// silence is how long a command may run without output, before it reports how far it is.
const silence = 2 * time.Second

// progress reports how far a command is: in one line that it overwrites on a terminal, in several
// lines elsewhere.
type progress struct {
	w          io.Writer
	clock      func() time.Time
	interval   time.Duration // the least time between two reports
	last       time.Time
	begin, end string // of each report
	reported   bool
}

// newProgress returns a progress that reports to w, for the first time after the interval. clock
// tells the time.
func newProgress(w io.Writer, clock func() time.Time) *progress {
	p := &progress{w: w, clock: clock, interval: silence, last: clock(), end: "\n"}
	if isTerminal(w) {
		p.begin, p.end = "\r\x1b[K", ""
	}
	return p
}

// isTerminal reports whether a person is watching, rather than a file or a pipe.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// reportProgress writes a report unless the last one was too recent.
func (p *progress) reportProgress(format string, args ...any) {
	if now := p.clock(); now.Sub(p.last) >= p.interval {
		p.last, p.reported = now, true
		fmt.Fprintf(p.w, p.begin+format+p.end, args...)
	}
}

// clearReport removes the last report from a terminal.
func (p *progress) clearReport() {
	if p.reported {
		fmt.Fprint(p.w, p.begin)
	}
}

// reportRows returns a callback that reports how many rows of a cluster have been read.
func (p *progress) reportRows(from string) func(rows int) {
	return func(rows int) { p.reportProgress("reading %s: %d rows so far", from, rows) }
}

// reportSeeds returns a callback that reports how many tasks have been offered, in all seeds so
// far.
func (p *progress) reportSeeds(seeds int) func(seed, offered int) {
	began := p.clock()
	return func(seed, offered int) {
		p.reportProgress("seed %d of %d, %d tasks so far, %.0f/s", seed, seeds, offered,
			float64(offered)/p.clock().Sub(began).Seconds())
	}
}

// replayInterval is the time between two reports of a replay, which often takes minutes.
const replayInterval = 5 * time.Second

// replayProgress returns a callback that reports how many tasks have arrived and ended, and which
// virtual day it is: as a bar with the time left on a terminal, in lines elsewhere. finish must be
// called at the end.
func replayProgress(
	w io.Writer, tasks int,
) (report func(arrived, ended int, passed time.Duration), finish func()) {
	// A bar needs a terminal that can overwrite a line.
	if !isTerminal(w) {
		p, began := newProgress(w, time.Now), time.Now()
		p.interval = replayInterval
		return func(arrived, ended int, passed time.Duration) {
			p.reportProgress("day %.1f: %d of %d tasks arrived, %d ended, %.0f/s", virtualDays(passed), arrived, tasks,
				ended, float64(ended)/time.Since(began).Seconds())
		}, func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	var day atomic.Int64
	bar := p.AddBar(int64(tasks), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
		return fmt.Sprintf("day %.1f ", virtualDays(time.Duration(day.Load())))
	}), decor.Name("tasks "), decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(decor.AverageSpeed(0, "%.0f/s "), decor.AverageETA(decor.ET_STYLE_GO)))
	return func(_, ended int, passed time.Duration) {
			day.Store(int64(passed))
			bar.SetCurrent(int64(ended))
		}, func() {
			bar.Abort(false)
			p.Wait()
		}
}

func virtualDays(passed time.Duration) float64 { return passed.Hours() / 24 }
