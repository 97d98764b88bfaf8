//! Samplers, and who names them.

use weir_plane::model::{Sampler, SamplerIndex, Sampling};

use super::super::declare::sampler;
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::At;
use super::Resolver;

impl Resolver<'_> {
    /// Makes the samplers of the model. Of equal names, the first counts.
    pub(super) fn samplers(&mut self) -> Vec<Sampler> {
        let declared = self.declared;
        let mut samplers: Vec<Sampler> = Vec::new();
        let mut spans = Vec::new();
        for sampler in &declared.samplers {
            let name = &sampler.name;
            if let Some(&SamplerIndex(first)) = self.samplers.by_name.get(name.value.as_str()) {
                let message = format!("there are two samplers `{}`", name.value);
                let found = Diagnostic::error(Code::DuplicateName, name.span, message);
                self.report(found.related(spans[usize::from(first)], "first here"));
                continue;
            }
            let Ok(index) = u16::try_from(samplers.len()) else {
                let message = format!("there are more than {} samplers", u32::from(u16::MAX) + 1);
                self.report(Diagnostic::error(Code::LimitExceeded, name.span, message));
                break;
            };
            self.samplers.by_name.insert(&name.value, SamplerIndex(index));
            spans.push(name.span);
            samplers.push(Sampler {
                name: name.value.clone(),
                pcap: sampler.pcap.clone(),
                ipfix: sampler.ipfix,
                snap_length: sampler.snap_length,
                rate: sampler.rate,
                origin: self.origin(name.span),
            });
        }
        self.samplers.used = vec![false; samplers.len()];
        samplers
    }

    /// Resolves the sampled packets, if the sampler is known.
    pub(super) fn sampling(&mut self, declared: &sampler::Sampling) -> Option<Sampling> {
        let to = self.sampler(&declared.to)?;
        Some(Sampling { one_in: declared.one_in, to })
    }

    /// The sampler of a name, which has a collector.
    pub(super) fn collector(&mut self, name: &At<String>) -> Option<SamplerIndex> {
        let index = self.sampler(name)?;
        let declared = self.declared.samplers.iter().find(|sampler| sampler.name.value == name.value)?;
        if declared.ipfix.is_none() {
            let message = format!("the sampler `{}` has no collector", name.value);
            let found = Diagnostic::error(Code::MissingKey, name.span, message);
            self.report(found.help("give it `ipfix` with the address and port of one"));
        }
        Some(index)
    }

    pub(super) fn sampler(&mut self, name: &At<String>) -> Option<SamplerIndex> {
        if let Some(&index) = self.samplers.by_name.get(name.value.as_str()) {
            self.samplers.used[usize::from(index.0)] = true;
            return Some(index);
        }
        if !self.declared.lost_samplers {
            let message = format!("there is no sampler `{}`", name.value);
            let unknown = Diagnostic::error(Code::UnknownSampler, name.span, message);
            let unknown = unknown.suggest(&name.value, self.samplers.by_name.keys());
            let help = unknown.help.clone();
            self.report(unknown.help(help.unwrap_or_else(|| format!("declare it under `[sampler.{}]`", name.value))));
        }
        None
    }

    /// Warns of samplers that nothing names.
    pub(super) fn unused_samplers(&mut self) {
        let declared = self.declared;
        for sampler in &declared.samplers {
            let index = self.samplers.by_name.get(sampler.name.value.as_str());
            let used = index.is_some_and(|index| self.samplers.used[usize::from(index.0)]);
            if !used && !declared.lost_sav {
                let message = format!("nothing is sampled for the sampler `{}`", sampler.name.value);
                let found = Diagnostic::warning(Code::UnusedSampler, sampler.name.span, message);
                let example =
                    format!("a policy names it: `sample = {{ one-in = 100, to = \"{}\" }}`", sampler.name.value);
                self.report(found.help(example));
            }
        }
    }
}
