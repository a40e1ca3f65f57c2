//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-isatty"
)

// progress shows which step is under way: on one line of a terminal, else a line from time to time.
type progress struct {
	out      io.Writer
	folder   string
	terminal bool
	last     time.Time
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 15 * time.Second

func newProgress(out *os.File, folder string) *progress {
	return &progress{out: out, folder: filepath.ToSlash(filepath.Clean(folder)), terminal: isatty.IsTerminal(out.Fd()),
		last: time.Now()}
}

func (p *progress) show(step string) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%s: %s", p.folder, step)
	case time.Since(p.last) >= lineEvery:
		p.last = time.Now()
		fmt.Fprintf(p.out, "%s: %s\n", p.folder, step)
	}
}

// count shows how many of several things are done.
func (p *progress) count(what string, done, of int) {
	p.show(fmt.Sprintf("%s %d of %d", what, done, of))
}

// clear removes the line.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
