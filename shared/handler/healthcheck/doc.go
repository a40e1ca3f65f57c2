// Package healthcheck writes down what target groups and alarms say of tasks and deployments.
package healthcheck
