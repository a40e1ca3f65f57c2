package domain

// Admits reports whether an eligible instance may have one more new task as far as its domains go.
func (d *Domains) Admits(i int) bool {
	takes := d.standing[i] == Eligible || d.rule.NoConstraints && d.standing[i] == Ineligible
	return takes && d.AdmitsFault(d.FaultDomain(i)) && d.AdmitsUpgrade(d.UpgradeDomain(i))
}

// Violated reports whether the tasks where they are break the rule of either dimension.
func (d *Domains) Violated() (fault, upgrade bool) {
	f, u := d.Excess()
	return f > 0, u > 0
}
