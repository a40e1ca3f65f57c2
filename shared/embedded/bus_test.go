package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/embedded"
	"berth/shared/state"
)

const rules = `
Running:
  Type: AWS::Events::Rule
  Properties:
    EventPattern: {detail-type: [Task], detail: {status: [RUNNING]}}
    Targets: [{Id: a, Arn: !GetAtt Jobs.Arn}]
Everything:
  Type: AWS::Events::Rule
  Properties:
    EventPattern: {source: [{prefix: aws.}]}
    Targets: [{Id: a, Arn: !GetAtt Dead.Arn}]
Off:
  Type: AWS::Events::Rule
  Properties:
    State: DISABLED
    EventPattern: {source: [{prefix: aws.}]}
    Targets: [{Id: a, Arn: !GetAtt Jobs.Arn}]
`

func event(source, status string) string {
	return fmt.Sprintf(`{"source": %q, "detail-type": "Task", "detail": {"status": %q}}`, source, status)
}

func TestBusSendsEventsToMatchingRules(t *testing.T) {
	t.Run("SendsToEveryRuleThatMatches", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs, rules), nil)
		var got []string
		w.worker.Messages = func(_ context.Context, m []state.Message) []string {
			got = append(got,
				bodies(m))
			return nil
		}
		w.runtime.Start()
		for _, e := range []string{event("aws.ecs", "RUNNING"), event("my.app", "RUNNING"), event("aws.ecs", "STOPPED"),
			event("my.app", "STOPPED")} {
			if err := w.runtime.PutEvent([]byte(e)); err != nil {
				t.Fatal(err)
			}
		}
		w.run(time.Second)
		equal(t, "delivered", got, []string{event("aws.ecs", "RUNNING") + " " + event("my.app", "RUNNING")})
		equal(t, "to the other rule", len(w.runtime.VisibleMessages("Dead")), 2)
		want := embedded.EventCounters{Put: 4, Matched: 3, Unmatched: 1, Sent: 4}
		if c := w.runtime.Counters(); c.Events != want || c.Queues["Jobs"].RuleSends != 2 ||
			c.Queues["Jobs"].Sends != 0 || c.QueueRequests != 6 {
			t.Errorf("counters %+v, want %+v, two sends by the rule, six requests in all", c, want)
		}
	})
	t.Run("KeepsBusesApart", func(t *testing.T) {
		const own = `
Bus: {Type: AWS::Events::EventBus, Properties: {Name: own}}
OwnRule:
  Type: AWS::Events::Rule
  Properties:
    EventBusName: !Ref Bus
    EventPattern: {source: [my.app]}
    Targets: [{Id: a, Arn: !GetAtt Dead.Arn}]
`
		w := open(t, template(readsJobs(""), jobs, own), nil)
		for bus, status := range map[string]string{"": "on the default bus", "Bus": "on its bus",
			"Other": "on another"} {
			if err := w.runtime.PutEventOn(bus, []byte(event("my.app", status))); err != nil {
				t.Fatal(err)
			}
		}
		w.run(time.Second)
		equal(t, "sent", bodies(w.runtime.VisibleMessages("Dead")), event("my.app", "on its bus"))
	})
	t.Run("RefusesInvalidEvents", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs, rules), nil)
		for _, e := range []string{
			``, `{`, `[]`, `"x"`, `{}`, `{"source": "a", "detail-type": "b"}`,
			`{"source": "a", "detail-type": "b", "detail": "c"}`,
			`{"source": "", "detail-type": "b", "detail": {}}`, `{"source": "a", "detail": {}}`,
			event("aws.ecs", strings.Repeat("x", 256<<10)),
		} {
			if err := w.runtime.PutEvent([]byte(e)); err == nil {
				t.Errorf("%.80s was taken", e)
			}
		}
		w.run(time.Second)
		if c := w.runtime.Counters().Events; c != (embedded.EventCounters{Put: 10, Refused: 10}) {
			t.Errorf("counters %+v", c)
		}
	})
	t.Run("FaultDropsEvents", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs, rules), func(o *embedded.RuntimeOptions) {
			o.Faults.Event = func(e []byte) bool { return strings.Contains(string(e), "RUNNING") }
		})
		for _, s := range []string{"RUNNING", "STOPPED"} {
			if err := w.runtime.PutEvent([]byte(event("aws.ecs", s))); err != nil {
				t.Fatal(err)
			}
		}
		w.run(time.Second)
		equal(t, "sent", bodies(w.runtime.VisibleMessages("Dead")), event("aws.ecs", "STOPPED"))
	})
	t.Run("FaultsLoseDuplicateAndDelayMessages", func(t *testing.T) {
		faults := []embedded.SendFault{{Drop: true}, {Copies: 2}, {Delay: time.Minute}}
		w := open(t, template(readsJobs("BatchSize: 1"), jobs), func(o *embedded.RuntimeOptions) {
			o.Faults.Send = func(string) embedded.SendFault { f := faults[0]; faults = faults[1:]; return f }
		})
		var got []string
		w.worker.Messages = func(_ context.Context, m []state.Message) []string {
			got = append(got, bodies(m)+"@"+w.at().String())
			return nil
		}
		w.runtime.Start()
		for _, s := range []string{"lost", "doubled", "late"} {
			w.send("Jobs", s, 0)
		}
		w.run(time.Hour)
		equal(t, "delivered", got, []string{"doubled@0s", "doubled@0s", "doubled@0s", "late@1m0s"})
	})
}
