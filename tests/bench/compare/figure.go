package main

import (
	"fmt"
	"html/template"
	"os"
	"strings"

	"berth/cmd/berth/chart"
)

// writeReport writes a page with how many times as fast as each peer Berth is, and how many tasks
// it places in a second.
func (b *bench) writeReport(file string) (err error) {
	var text strings.Builder
	if err := b.printTables(&text); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	return chart.Report{Title: "Placement, beside its peers",
		Command: "go run ./tests/bench/compare " + strings.Join(os.Args[1:], " "),
		Text:    strings.TrimLeft(text.String(), "\n"), Figures: b.figures()}.Write(out)
}

// figures draws the ratios to each peer, and Berth's own speed.
func (b *bench) figures() (out []template.HTML) {
	own := chart.Bars{Title: "Tasks that Berth places in a second"}
	ratios := map[string]*chart.Bars{}
	var peers []string
	for _, r := range b.sortedResults() {
		name := fmt.Sprintf("%s, %d, %s", r.Workload, r.Nodes, r.Start)
		if r.Peer == berth {
			own.Bars = append(own.Bars, chart.Bar{Name: name, Value: r.PerSecond})
			continue
		}
		ours := b.resultOf(berth, keyOf(r))
		if ours == nil || r.PerSecond == 0 {
			continue
		}
		if ratios[r.Peer] == nil {
			ratios[r.Peer] = &chart.Bars{Title: "How many times as fast as " + r.Peer + " Berth is"}
			peers = append(peers, r.Peer)
		}
		ratios[r.Peer].Bars = append(ratios[r.Peer].Bars, chart.Bar{Name: name, Value: ours.PerSecond / r.PerSecond})
	}
	for _, peer := range peers {
		out = append(out, ratios[peer].Figure())
	}
	return append(out, own.Figure())
}
