package domain_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// matrix returns a cluster of three data centers with 17 racks each and 20 upgrade domains.
func matrix(instances int) *layout {
	l := &layout{}
	for i := range instances {
		l.add("", fmt.Sprintf("fd:/dc%d/rack%d", i%3, i/3%17), fmt.Sprintf("ud%d", i%20))
	}
	return l
}

func BenchmarkNewDomains(b *testing.B) {
	l := matrix(15000)
	b.ReportAllocs()
	for b.Loop() {
		domain.NewDomains(l.fault, l.upgrade, l.standing, rule(cluster.PolicyAdaptive, 100))
	}
}

// BenchmarkDomainsAdd does what each placement does: it adds one task and asks about all regions.
func BenchmarkDomainsAdd(b *testing.B) {
	d := matrix(15000).domains(rule(cluster.PolicyAdaptive, 100))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.AddTasks(i%15000, 1)
		d.AddTasks(i%15000, -1)
	}
}

func BenchmarkDomainsAdmits(b *testing.B) {
	d := matrix(15000).domains(rule(cluster.PolicyAdaptive, 100))
	for i := range 100 {
		d.AddTasks(i*7, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		for leaf := range d.FaultDomainCount() {
			d.AdmitsFault(leaf)
		}
		for id := range d.UpgradeDomainCount() {
			d.AdmitsUpgrade(id)
		}
	}
}
