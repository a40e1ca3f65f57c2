package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// upAndDown is what each of n tasks of one service costs on the embedded tier: scaled up on so many instances, and to
// zero again.
func upAndDown(t testing.TB, instances, n int) Cost {
	t.Helper()
	b := newBurst(t, instances)
	ctx := context.Background()
	none := 0
	if _, err := b.API.CreateService(ctx, cluster.ServiceSpec{
		Cluster: clusterName, Name: "a", TaskDefinition: "web", Desired: &none,
	}); err != nil {
		t.Fatal(err)
	}
	b.run(time.Minute)
	from := b.spending()
	for _, count := range []int{n, 0} {
		if _, err := b.API.UpdateService(ctx, cluster.ServiceChange{Cluster: clusterName, Name: "a", Desired: &count}); err != nil {
			t.Fatal(err)
		}
		b.run(5 * time.Minute)
		if got := b.running(); got != count {
			t.Fatalf("%d tasks run, want %d", got, count)
		}
	}
	return perTask(from, b.spending(), n)
}

func TestBeside(t *testing.T) {
	text := beside(Cost{WriteUnits: 8, ReadUnits: 1, Invocations: 0.2}, Cost{WriteUnits: 7.9, ReadUnits: 0.5, Invocations: 0.1}, Stopped,
		map[string]string{"invocations": "no batches gather"})
	for _, want := range []string{"write units", "+1%", "+100%\n    no batches gather", "+100%\n    NOT EXPLAINED"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "+1%\n    ") {
		t.Errorf("a small difference is explained:\n%s", text)
	}
}

// emulatorDiffers says why figures on the emulator differ from those of the embedded tier.
var emulatorDiffers = map[string]string{"Lambda invocations": "the emulator gathers no batches"}
