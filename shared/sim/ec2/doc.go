// Package ec2 simulates the part of EC2 that Auto Scaling groups launch from: machine types, images
// and launch templates, and answers whether a subnet or security group exists.
//
// It launches nothing: package autoscaling does, and package ecs registers what was launched.
// [Templates] are the launch templates as Berth's functions call them; [Templates.QueryService]
// answers the real protocol. A template's versions are numbered from 1 and never change; what a
// group launches is a version's [Data] and a [Machine] of its type. Start at
// [Templates.ResolveTemplate].
package ec2
