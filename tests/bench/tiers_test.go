package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/shared/operation"
)

// measureScaleUpAndDown returns what each of n tasks of one service costs on the embedded tier,
// when the service is scaled up on a number of instances and to zero again.
func measureScaleUpAndDown(t testing.TB, instances, n int) measured {
	t.Helper()
	b := newBurst(t, instances)
	ctx := context.Background()
	none := 0
	if _, err := b.API.Services.CreateService(ctx, operation.CreateService{
		Cluster: clusterName, Name: "a", TaskDefinition: "web", Desired: &none,
	}); err != nil {
		t.Fatal(err)
	}
	b.runFor(time.Minute)
	from, deliveries := b.functionCosts(), b.countDeliveries()
	for _, count := range []int{n, 0} {
		if _, err := b.API.Services.UpdateService(ctx,
			operation.UpdateService{Cluster: clusterName, Name: "a", Desired: &count}); err != nil {
			t.Fatal(err)
		}
		b.runFor(5 * time.Minute)
		if got := b.countRunning(); got != count {
			t.Fatalf("%d tasks run, want %d", got, count)
		}
	}
	return measured{perTask(from, b.functionCosts(), n), float64(b.countDeliveries()-deliveries) / float64(n)}
}

// countDeliveries counts the messages and records that the functions have received.
func (b *burst) countDeliveries() (n int) {
	for _, f := range b.Runtime.Counters().Functions {
		n += f.Records
		for _, messages := range f.Messages {
			n += messages
		}
	}
	return n
}

func TestCompareTiers(t *testing.T) {
	emulator := measured{Cost{WriteUnits: 8, ReadUnits: 1, Invocations: 0.2}, 3}
	text, unexplained := compareTiers(emulator, measured{Cost{WriteUnits: 7.9, ReadUnits: 0.5, Invocations: 0.1}, 3},
		Stopped,
		map[string]string{"invocations": "no batches gather"})
	for _, want := range []string{"write units", "+1%", "+100%\n    no batches gather"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "+1%\n    ") {
		t.Errorf("a small difference is explained:\n%s", text)
	}
	if got := strings.Join(unexplained, ", "); got != "read units" {
		t.Errorf("not explained: %s\n%s", got, text)
	}
	for name := range emulatorDifferences {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("there is no figure %s", name)
		}
	}
}
