# The things one does with this repository. Each target is a script in scripts/, so that it can be
# read, and run alone. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help packages deny test-image test-packages test-upgrade test-monitoring demo demo-pool demo-single check test test-page fix fuzz bench-server bench-replication bench-failover bench-paper posix-suite soak nemesis

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Three sites far apart: unpack and build at one with the real Linux client, open the result at all
	@scripts/demo

demo-pool: ## A site grows: one data server, then three; a real Linux client has the speed of all, and loses nothing when one is killed
	@scripts/demo-pool

demo-single: ## One server: mount it with the real Linux client, do visible work, and kill it meanwhile
	@scripts/demo-single

check: ## Before each commit: format, lints, documentation, unit tests; no root, nothing installed
	@scripts/check

test: ## Prove everything: format, lints, architecture, unit tests, the real Linux client
	@scripts/test

test-page: ## Look at the status page with a real browser, which is installed if it is missing
	@scripts/test-page

fix: ## Format the code and apply what the linter can mend by itself
	@scripts/fix

bench-server: ## Compare Meridian with NFS-Ganesha on this machine
	@scripts/bench-server

packages: ## Build the Debian packages into target/packages
	@scripts/packages

test-packages: ## Install, upgrade, remove and purge the packages in a clean Debian; needs root
	@scripts/test-packages

test-image: ## Make the container image without a registry, and run servers in it; needs root
	@scripts/test-image

test-upgrade: ## Upgrade a data directory, and a set of three that serves, to the next release; needs root
	@scripts/test-upgrade

test-monitoring: ## Let a real Prometheus load the alerting rules and scrape a server
	@scripts/test-monitoring

deny: ## Check licences, sources and known faults of all dependencies
	@scripts/deny

fuzz: ## Let a fuzzer feed every decoder, FUZZ_SECONDS each (default 10)
	@scripts/fuzz

soak: ## Look for faults for SOAK_MINUTES minutes (default 10): simulated runs, then real servers that fail
	@scripts/soak

nemesis: ## Let real servers at three sites fail for two minutes while clients work, again with a witness, with a pool at one site, and twice as a pool; judge the answers
	@scripts/nemesis

bench-replication: ## Measure single operations, their processor time, and a large file at sets of replicas far apart
	@scripts/evaluate --only latency,cost,bulk $(ARGS)

bench-failover: ## Measure how long a lost server is missed, and what it costs to be prepared
	@scripts/evaluate --only takeover,absence,leases $(ARGS)

bench-paper: ## Measure all of docs/evaluation.md, the papers' experiments first; ARGS=--quick for a first impression
	@scripts/evaluate $(ARGS)

posix-suite: ## Run an independent POSIX suite through the real Linux client
	@scripts/posix-suite
