package domain

// Admits reports whether the domain rules allow one more new task on an eligible instance.
func (d *Domains) Admits(i int) bool {
	takes := d.standing[i] == Eligible || d.rule.NoConstraints && d.standing[i] == Ineligible
	return takes && d.AdmitsFault(d.FaultDomain(i)) && d.AdmitsUpgrade(d.UpgradeDomain(i))
}

// Violated reports whether the tasks break the rule of either dimension.
func (d *Domains) Violated() (fault, upgrade bool) {
	f, u := d.Excess()
	return f > 0, u > 0
}
