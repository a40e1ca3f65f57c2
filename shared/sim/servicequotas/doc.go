// Package servicequotas simulates AWS Service Quotas: what an account may have of a resource, how
// much of it is used, and increases, which are granted at once.
//
// It has only quotas that launches and tasks meet: vCPUs of running instances, launch templates and
// network interfaces. Start at [Service.ServeJSON].
package servicequotas
