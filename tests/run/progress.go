//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A progress prints a line for each step that ends and, meanwhile, what is running and how long the
// rest is likely to take: on a terminal in a last line that changes every second, otherwise in a
// line of its own from time to time.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	// timesFile keeps how long each step took last time.
	timesFile string

	mu      sync.Mutex
	plan    plan
	began   time.Time
	times   map[string]time.Duration // the last run's
	started map[string]time.Time
	ended   map[string]bool
	details map[string]string // how far a running step is
}

func newProgress(out io.Writer, terminal bool, timesFile string) *progress {
	p := &progress{out: out, terminal: terminal, now: time.Now, timesFile: timesFile, times: map[string]time.Duration{}}
	if text, err := os.ReadFile(timesFile); err == nil {
		_ = json.Unmarshal(text, &p.times) // without it the defaults serve
	}
	return p
}

// statusPause is the time between two lines of status where there is no terminal.
const statusPause = 30 * time.Second

// show starts to print the status of a plan. The function that it returns ends that.
func (p *progress) show(of plan) (stop func()) {
	p.mu.Lock()
	p.plan, p.began = of, p.now()
	p.started, p.ended, p.details = map[string]time.Time{}, map[string]bool{}, map[string]string{}
	p.mu.Unlock()
	pause := statusPause
	if p.terminal {
		pause = time.Second
	}
	done := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		for tick := time.NewTicker(pause); ; {
			select {
			case <-tick.C:
				p.mu.Lock()
				p.printStatus()
				p.mu.Unlock()
			case <-done:
				tick.Stop()
				return
			}
		}
	})
	return func() {
		close(done)
		printing.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clearStatus()
	}
}

// start notes that a step begins.
func (p *progress) start(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started[step] = p.now()
	if p.terminal {
		p.printStatus()
	}
}

// detail notes how far a running step is.
func (p *progress) detail(step, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.details != nil {
		p.details[step] = text
	}
}

// end prints the line of a step, and its log if it failed, and keeps how long it took.
func (p *progress) end(step string, res result, log string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.now().Sub(p.started[step])
	p.ended[step] = true
	p.clearStatus()
	word, note := res.verdict()
	fmt.Fprintf(p.out, "%-5s %-30s %7.1f s  %s\n", word, step, took.Seconds(), note)
	if word == "FAIL" {
		fmt.Fprintln(p.out, indent(log, maxShownLines))
	} else {
		p.times[step] = took
		p.writeTimes()
	}
	if p.terminal {
		p.printStatus()
	}
}

func (p *progress) writeTimes() {
	if text, err := json.Marshal(p.times); err == nil {
		_ = os.WriteFile(p.timesFile, text, 0o644) // if that fails, only an estimate is lost
	}
}

func (p *progress) clearStatus() {
	if p.terminal {
		io.WriteString(p.out, "\r\x1b[K")
	}
}

// maxStatus is how long a line of status may be, so that it fits on a terminal.
const maxStatus = 100

func (p *progress) printStatus() {
	status := p.status()
	if status == "" {
		return
	}
	if cut := []rune(status); p.terminal && len(cut) > maxStatus {
		status = string(cut[:maxStatus-1]) + "…"
	}
	p.clearStatus()
	io.WriteString(p.out, "      "+status)
	if !p.terminal {
		io.WriteString(p.out, "\n")
	}
}

// status says how long the run has taken, how long the rest may take, and what is running; nothing
// if nothing is.
func (p *progress) status() string {
	var running []string
	for _, s := range p.plan.steps() {
		if p.isRunning(s.name) {
			text := s.name
			if d := p.details[s.name]; d != "" {
				text += " (" + d + ")"
			}
			running = append(running, text)
		}
	}
	if len(running) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s: %s", clock(p.now().Sub(p.began)), left(p.timeLeft()), strings.Join(running, ", "))
}

func (p *progress) isRunning(step string) bool { return !p.started[step].IsZero() && !p.ended[step] }

// timeLeft estimates how long the steps that have not ended will take, from what each took last
// time.
func (p *progress) timeLeft() time.Duration {
	ends := map[string]time.Duration{} // from now
	var last time.Duration
	// A lane may wait for a step of a later one: pass over the lanes until nothing changes.
	for range len(p.plan.lanes) + 1 {
		for _, lane := range p.plan.lanes {
			at := time.Duration(0)
			for _, s := range lane {
				for _, other := range s.after {
					at = max(at, ends[other])
				}
				at += p.stepLeft(s)
				ends[s.name], last = at, max(last, at)
			}
		}
	}
	return last
}

// minLeft is the time that a step is given which runs for longer than last time.
const minLeft = 5 * time.Second

func (p *progress) stepLeft(s step) time.Duration {
	usual, timed := p.times[s.name]
	if !timed {
		usual = s.usual
	}
	switch {
	case p.ended[s.name]:
		return 0
	case p.isRunning(s.name):
		return max(usual-p.now().Sub(p.started[s.name]), minLeft)
	default:
		return usual
	}
}

// clock writes a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// left writes a remaining time no more exactly than it is known.
func left(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute left"
	}
	return fmt.Sprintf("about %d min left", int(d.Round(time.Minute).Minutes()))
}
