package simulation

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	n, err := strconv.ParseUint(os.Getenv("DBG"), 10, 63)
	if err != nil {
		t.Skip("no DBG")
	}
	run := Run{Seed: n}
	if os.Getenv("SHRINK") != "" {
		run, _ = Shrink(run, Simulate(run))
	}
	w, _ := newWorld(run)
	defer w.Close()
	w.live()
	fmt.Println(w.checker.broken, w.Loop.Now().Sub(epoch))
	for _, s := range w.checker.active() {
		fmt.Printf("SERVICE %s %s d=%d run=%d %d-%d%% grace=%d breaker=%+v alarms=%+v zr=%t\n  primary %+v\n  older %+v\n  last %+v\n  release %+v\n blocked %v rules %s\n", s.Name, s.Strategy, s.Desired, s.Running, s.MinHealthy, s.MaxPercent, s.Grace, s.Breaker, s.Alarms, s.ZoneRebalancing, s.Deployment, s.Older, s.Last, s.Release, s.Blocked, said(s.Rules))
		for _, t := range w.checker.owned[s.Short] {
			if !t.Ended() || w.Loop.Now().Sub(t.Stopped.Time()) < 24*time.Hour {
				fmt.Printf("   task %s %s on %s %s desired %s started %v healthy %v; told %+v target %+v\n", t.ID[26:], t.Revision, t.Instance, t.Status(), t.Desired, t.Started.Time().Sub(epoch), t.Health, w.checker.told(s, t), w.checker.target(t))
			}
		}
		for _, e := range w.checker.rows {
			_ = e
		}
	}
	if w.checker.configuration() != nil {
		fmt.Println("believed", w.checker.believed())
	}
}
