package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
)

// What was made for a provider is made again if somebody removed it (C1, C6).
func TestManagedScaling_RestoresAttachments(t *testing.T) {
	tracking := func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagTargetTracking: "true"} }
	t.Run("RestoresWhatSomebodyDeleted", func(t *testing.T) {
		for name, change := range map[string]func(*cluster.CapacityProvider){"Alarms": nil, "Policy": tracking} {
			t.Run(name, func(t *testing.T) {
				s := newScaled(t, change)
				s.minute(2)
				made := len(s.hooks) + len(s.alarms) + len(s.policy)
				clear(s.hooks)
				clear(s.alarms)
				clear(s.policy)
				s.minute(60)
				want(t, "hooks, alarms and policies", len(s.hooks)+len(s.alarms)+len(s.policy), made)
			})
		}
	})
	t.Run("OnceAnHour", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(70)
		before := s.puts
		s.minute(10 * 60)
		want(t, "puts in ten hours", s.puts-before, 10*3)
	})
	t.Run("InAGroupMadeAnew", func(t *testing.T) {
		for name, seen := range map[string]bool{"ThatWasSeenToBeGone": true, "Unseen": false} {
			t.Run(name, func(t *testing.T) {
				s := newScaled(t, nil)
				g := s.groups["g"]
				g.ARN = "arn:1"
				s.minute(2)
				delete(s.groups, "g")
				delete(s.hooks, "g") // it went with the group
				next := &cluster.AutoScalingGroup{Name: "g", ARN: "arn:1", Max: g.Max, Protects: true}
				if seen {
					for range 2 {
						if s.function.RunSchedule(ctx, "scaling") == nil {
							t.Fatal("nothing is said of a group that is gone")
						}
						want(t, "status", s.status(t), cluster.AttachmentsFailed)
					}
				} else {
					next.ARN = "arn:2"
				}
				s.groups["g"] = next
				s.look(t)
				want(t, "hooks", len(s.hooks), 1)
				want(t, "status", s.status(t), cluster.AttachmentsComplete)
				want(t, "puts", s.puts, 6)
				s.minute(1)
				want(t, "puts a minute later", s.puts, 6)
			})
		}
	})
	t.Run("LeavesUnwantedTasksAlone", func(t *testing.T) {
		s := newScaled(t, func(p *cluster.CapacityProvider) { p.Protection, p.Draining, p.Scaling.Enabled = false, false, false })
		s.minute(int(2 * time.Hour / time.Minute))
		want(t, "puts", s.puts, 0)
	})
}
