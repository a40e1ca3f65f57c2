package service_test

import (
	"fmt"
	"testing"

	"berth/shared/service"
)

func BenchmarkReconcile(b *testing.B) {
	in := input(replica(5000))
	for n := range 5000 {
		in.Tasks = append(in.Tasks, task(fmt.Sprintf("t%04d", n*7919%5000)))
		in.Eligible = append(in.Eligible, fmt.Sprintf("i-%04d", n))
	}
	b.Run("Replica", func(b *testing.B) {
		for b.Loop() {
			service.Reconcile(in)
		}
	})
	b.Run("Daemon", func(b *testing.B) {
		in.Service = daemon()
		for b.Loop() {
			service.Reconcile(in)
		}
	})
}
