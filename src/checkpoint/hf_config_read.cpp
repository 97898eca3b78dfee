// Reads config.json. The defaults are those of transformers' configuration classes.
#include <cmath>
#include <simdjson.h>
#include <string_view>

#include "checkpoint/hf_config.hpp"
#include "trireme/base/file.hpp"

namespace trireme::checkpoint {
namespace {

using simdjson::dom::element;

class Reader {
  public:
    explicit Reader(const std::filesystem::path& path)
        : path_(path), text_(read_file(path, ErrorCategory::checkpoint,
                                       {"the directory of a model has a config.json",
                                        "try: a directory that save_pretrained() wrote"})) {
        if (const auto error = parser_.parse(text_).get(root_))
            refuse(concat("not JSON: ", simdjson::error_message(error)));
        if (!root_.is_object())
            refuse("one object is needed");
    }

    HfConfig read() {
        const std::string type = text("model_type", "");
        forbid("quantization_config", "quantized weights");
        HfConfig config;
        if (type == "gpt2")
            config.family = HfFamily::gpt2;
        else if (type == "llama")
            config.family = HfFamily::llama;
        else if (type == "qwen2")
            config.family = HfFamily::qwen2;
        else
            throw Error(ErrorCategory::checkpoint,
                        concat(path_.string(), ": the architecture ", type.empty() ? "(no model_type)" : type,
                               " cannot be imported"),
                        {"known: gpt2, llama, qwen2 (model_type)", "try: a model of one of these"});
        if (config.family == HfFamily::gpt2)
            read_gpt2(config.model);
        else
            read_llama(config.model, config.family);
        return config;
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorCategory::checkpoint, concat(path_.string(), ": ", why),
                    {"it is read as the config.json of a GPT-2, Llama or Qwen 2.5 of transformers",
                     "try: another model, or transformers itself to change this one"});
    }

    // Null where the key is missing or null.
    element member(const element& of, const char* key) const {
        element value;
        if (of[key].get(value))
            return {};
        return value;
    }
    bool has(const element& of, const char* key) const {
        element value;
        return of[key].get(value) == simdjson::SUCCESS && !value.is_null();
    }

    std::int64_t whole(const char* key, std::optional<std::int64_t> otherwise = {}) const {
        if (!has(root_, key)) {
            if (!otherwise)
                refuse(concat(key, " is missing"));
            return *otherwise;
        }
        std::int64_t value = 0;
        if (member(root_, key).get(value) || value < 1 || value > (std::int64_t{1} << 40))
            refuse(concat(key, " is no whole number of at least 1"));
        return value;
    }
    double number(const element& of, const char* key, std::optional<double> otherwise) const {
        if (!has(of, key)) {
            if (!otherwise)
                refuse(concat(key, " is missing"));
            return *otherwise;
        }
        double value = 0;
        if (member(of, key).get(value) || !(value >= 0))
            refuse(concat(key, " is no number of at least 0"));
        return value;
    }
    bool flag(const char* key, bool otherwise) const {
        bool value = otherwise;
        if (has(root_, key) && member(root_, key).get(value))
            refuse(concat(key, " is neither true nor false"));
        return value;
    }
    std::string text(const element& of, const char* key, std::string_view otherwise) const {
        std::string_view value = otherwise;
        if (has(of, key) && member(of, key).get(value))
            refuse(concat(key, " is no text"));
        return std::string(value);
    }
    std::string text(const char* key, std::string_view otherwise) const {
        return text(root_, key, otherwise);
    }

    void forbid(const char* key, const char* what) const {
        if (has(root_, key))
            refuse(concat(what, " are not supported (", key, ")"));
    }
    void require_flag(const char* key, bool wanted) const {
        if (flag(key, wanted) != wanted)
            refuse(concat(key, " is ", wanted ? "false" : "true", ", which is not supported"));
    }
    void require_text(const char* key, std::string_view otherwise,
                      std::initializer_list<std::string_view> known) const {
        const std::string value = text(key, otherwise);
        std::string all;
        for (const std::string_view name : known) {
            if (value == name)
                return;
            all += concat(all.empty() ? "" : ", ", name);
        }
        refuse(concat(key, " ", value, " is not supported: ", all));
    }

    void read_gpt2(catalogue::ModelConfig& model) const {
        model.layers = whole("n_layer");
        model.hidden = whole("n_embd");
        model.heads = model.groups = whole("n_head");
        if (model.hidden % model.heads != 0)
            refuse("n_embd is no multiple of n_head");
        model.head_dim = model.hidden / model.heads;
        model.ffn = whole("n_inner", 4 * model.hidden);
        model.vocabulary = whole("vocab_size");
        model.max_positions = whole("n_positions");
        model.norm_epsilon = number(root_, "layer_norm_epsilon", 1e-5);
        model.init_std = number(root_, "initializer_range", 0.02);
        model.hidden_dropout = number(root_, "resid_pdrop", 0.1);
        model.attention_dropout = number(root_, "attn_pdrop", 0.1);
        model.output_layer =
            flag("tie_word_embeddings", true) ? catalogue::OutputLayer::tied : catalogue::OutputLayer::own;
        require_text("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
        require_flag("scale_attn_weights", true);
        require_flag("scale_attn_by_inverse_layer_idx", false);
        require_flag("add_cross_attention", false);
    }

    void read_llama(catalogue::ModelConfig& model, HfFamily family) const {
        model.positions = catalogue::Positions::rotary;
        model.normalisation = catalogue::Normalisation::rms_norm;
        model.activation = catalogue::Activation::swiglu;
        model.layers = whole("num_hidden_layers");
        model.hidden = whole("hidden_size");
        model.heads = whole("num_attention_heads");
        model.groups = whole("num_key_value_heads", model.heads);
        if (model.heads % model.groups != 0)
            refuse("num_attention_heads is no multiple of num_key_value_heads");
        if (!has(root_, "head_dim") && model.hidden % model.heads != 0)
            refuse("hidden_size is no multiple of num_attention_heads, and there is no head_dim");
        model.head_dim = whole("head_dim", model.hidden / model.heads);
        model.ffn = whole("intermediate_size");
        model.vocabulary = whole("vocab_size");
        model.max_positions = whole("max_position_embeddings");
        model.norm_epsilon = number(root_, "rms_norm_eps", 1e-6);
        model.init_std = number(root_, "initializer_range", 0.02);
        model.hidden_dropout = 0;
        model.attention_dropout = number(root_, "attention_dropout", 0.0);
        model.output_layer =
            flag("tie_word_embeddings", false) ? catalogue::OutputLayer::tied : catalogue::OutputLayer::own;
        require_text("hidden_act", "silu", {"silu", "swish"});
        if (family == HfFamily::qwen2) {
            model.biases = catalogue::Biases::query_key_value;
            require_flag("use_sliding_window", false);
            require_full_attention();
        } else {
            const bool biases = flag("attention_bias", false);
            if (biases != flag("mlp_bias", false))
                refuse("attention_bias and mlp_bias differ, which is not supported");
            model.biases = biases ? catalogue::Biases::all : catalogue::Biases::none;
        }
        read_rotary(model);
    }

    void require_full_attention() const {
        simdjson::dom::array layers;
        if (!has(root_, "layer_types") || member(root_, "layer_types").get(layers))
            return;
        for (const element layer : layers) {
            std::string_view kind;
            if (layer.get(kind) || kind != "full_attention")
                refuse("layer_types has other layers than full_attention, which is not supported");
        }
    }

    // `rope_theta` and `rope_scaling`, or, since version 5 of transformers, both in `rope_parameters`.
    void read_rotary(catalogue::ModelConfig& model) const {
        const bool together = has(root_, "rope_parameters");
        const bool scaled = together || has(root_, "rope_scaling");
        const element rope = scaled ? member(root_, together ? "rope_parameters" : "rope_scaling") : root_;
        if (!rope.is_object())
            refuse("rope_scaling is no object");
        model.rotary.base = number(together ? rope : root_, "rope_theta", 10000.0);
        if (model.rotary.base < 2 || model.rotary.base != std::floor(model.rotary.base))
            refuse("rope_theta is no whole number of at least 2");
        if (number(root_, "partial_rotary_factor", 1.0) != 1)
            refuse("partial_rotary_factor is not supported");
        if (!scaled)
            return;
        const std::string type = text(rope, "rope_type", text(rope, "type", "default"));
        if (type == "default")
            return;
        if (type != "llama3")
            refuse(concat("rope scaling of type ", type, " is not supported: llama3"));
        catalogue::RotaryScaling wanted;
        wanted.factor = number(rope, "factor", std::nullopt);
        const catalogue::RotaryScaling known; // what --use-rope-scaling means
        if (wanted.factor < 1)
            refuse("the factor of rope scaling is below 1");
        if (number(rope, "low_freq_factor", std::nullopt) != known.low_frequency_factor ||
            number(rope, "high_freq_factor", std::nullopt) != known.high_frequency_factor ||
            number(rope, "original_max_position_embeddings", std::nullopt) !=
                static_cast<double>(known.original_positions))
            refuse(concat("rope scaling has other limits than Llama 3's: low_freq_factor ",
                          known.low_frequency_factor, ", high_freq_factor ", known.high_frequency_factor,
                          ", original_max_position_embeddings ", known.original_positions));
        model.rotary.scaling = wanted;
    }

    std::filesystem::path path_;
    std::string text_;
    simdjson::dom::parser parser_;
    element root_;
};

} // namespace

HfConfig read_hf_config(const std::filesystem::path& path) {
    return Reader(path).read();
}

} // namespace trireme::checkpoint
